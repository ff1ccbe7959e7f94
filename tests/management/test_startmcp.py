"""``manage.py startmcp``: what it writes imports, passes the checks and serves."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth import get_user_model
from django.contrib.contenttypes.fields import GenericForeignKey
from django.contrib.contenttypes.models import ContentType
from django.core.management import CommandError, call_command
from django.db import models
from django.test.utils import isolate_apps

from django_mcp.management.commands.startmcp import mcp_source, omitted_fields, safe_fields
from tests.docs.test_blocks import Site

MODELS = """
class Shelf(models.Model):
    label = models.CharField(max_length=20)

class Reader(models.Model):
    name = models.CharField(max_length=50)
    email = models.EmailField()
    password = models.CharField(max_length=128)
    api_token = models.CharField(max_length=64)
    login_hash = models.CharField(max_length=64)
    card_key = models.CharField(max_length=64)
    SecretNote = models.TextField()
    photo = models.BinaryField(null=True)
    data = models.JSONField(default=dict)
    shelf = models.ForeignKey(Shelf, models.CASCADE, null=True)
    joined = models.DateField(null=True)
"""
PEOPLE = """
import os; os.environ["DJANGO_SETTINGS_MODULE"] = "mysite.settings"
import django; django.setup()
from django.contrib.auth.models import Permission, User
User.objects.create_user("ann")
User.objects.create_user("bob").user_permissions.set(Permission.objects.filter(codename__startswith="view_"))
from library.models import Book
Book.objects.create(title="Emma", author="Jane Austen", pages=474)
"""


@pytest.fixture
def site(tmp_path: Path) -> Site:
    site = Site(tmp_path)
    site.append("mysite/settings.py", 'INSTALLED_APPS += ["django_mcp"]')
    site.append("mysite/settings.py", 'DJANGO_MCP = {"AUTHENTICATION": ["django_mcp.APIKeyAuthentication"]}')
    site.append("mysite/urls.py", "from django.urls import include")
    site.append("mysite/urls.py", 'urlpatterns += [path("", include("django_mcp.urls"))]')
    return site


def ruff(*arguments: Any) -> None:
    done = subprocess.run(  # noqa: PLW1510 - asserted below, with what it said
        [sys.executable, "-m", "ruff", *arguments], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr


def fields_of(source: str) -> dict[str, list[str]]:
    """Class -> its ``fields``."""
    return {
        node.name: ast.literal_eval(each.value)
        for node in ast.parse(source).body
        if isinstance(node, ast.ClassDef)
        for each in node.body
        if isinstance(each, ast.Assign) and each.targets[0].id == "fields"
    }


def test_what_is_written_is_checked_listed_and_called(site: Site) -> None:
    site.append("library/models.py", MODELS)
    said = site.run("manage.py", "startmcp", "library")
    assert "manage.py mcp_inspect" in said
    path = site.path / "library" / "mcp.py"
    assert fields_of(path.read_text()) == {
        "BookResource": ["title", "author", "pages"],
        "ShelfResource": ["label"],
        "ReaderResource": ["name", "joined"],
    }
    ruff("format", "--isolated", "--check", path)
    ruff("check", "--isolated", "--select", "E,F,W,D100,D101,D103", path)
    site.migrate(PEOPLE, check=True)
    of_bob, of_ann, described, found = site.commands(
        "mcp_inspect --as bob --json",
        "mcp_inspect --as ann --json",
        "mcp_call describe_library --as bob",
        "mcp_call search_books --as bob query=emma",
    )
    seen = json.loads(of_bob)["endpoints"][0]["tools"]
    listed = {each["name"] for each in seen if each["listed"]}
    assert {"search_books", "get_book", "get_shelf", "search_readers", "describe_library"} <= listed
    hidden = json.loads(of_ann)["endpoints"][0]["tools"]
    assert not any(each["listed"] for each in hidden)
    (why,) = [each["hidden_because"] for each in hidden if each["name"] == "get_book"]
    assert why == ["BookResource requires the permission library.view_book"]
    assert described == "1 × book\n"
    assert "Emma" in found


def test_an_app_without_models_gets_a_tool(site: Site) -> None:
    site.add_app("about")
    site.append("mysite/settings.py", 'INSTALLED_APPS += ["about"]')
    site.run("manage.py", "startmcp", "about")
    path = site.path / "about" / "mcp.py"
    ruff("format", "--isolated", "--check", path)
    ruff("check", "--isolated", "--select", "E,F,W,I,D100,D103", path)
    site.migrate(PEOPLE, check=True)
    assert (
        site.run("manage.py", "mcp_call", "describe_about", "--as", "ann", "topic=Books.") == "This is about. Books.\n"
    )


def test_what_is_there_is_not_overwritten() -> None:
    path = Path(apps.get_app_config("travel").path) / "mcp.py"
    before = path.read_text()
    with pytest.raises(CommandError, match="already exists; nothing was written"):
        call_command("startmcp", "travel")
    assert path.read_text() == before


@pytest.mark.parametrize(
    ("app", "words"),
    [
        ("lirbary", "There is no app 'lirbary' in INSTALLED_APPS; choose one of"),
        ("auth", "The app 'auth' is an installed package"),
    ],
)
def test_an_app_that_is_none_of_the_site_is_refused(app: str, words: str) -> None:
    with pytest.raises(CommandError) as caught:
        call_command("startmcp", app)
    assert words in str(caught.value)


def test_no_example_shows_what_looks_like_a_secret() -> None:
    secrets = ("password", "token", "secret", "key", "hash", "email")
    for model in apps.get_models():
        for name in safe_fields(model):
            assert not any(word in name.lower() for word in secrets), name


def test_every_app_of_the_demo_gets_a_file_that_is_formatted(tmp_path: Path) -> None:
    for label in ("travel", "library", "snippets", "auth"):
        (tmp_path / f"{label}.py").write_text(mcp_source(apps.get_app_config(label)))
    ruff("format", "--isolated", "--check", tmp_path)
    ruff("check", "--isolated", "--select", "F,E9", tmp_path)


def test_a_model_with_a_parent_table_shows_title_and_own_fields_first_and_names_every_other_column() -> None:
    with isolate_apps("tests.model_resources.library"):

        class Draft(models.Model):
            """What packages add to any model."""

            is_draft = models.BooleanField(editable=False)
            due = models.DateField(null=True)

            class Meta:
                """Of no table of its own."""

                abstract = True

        class Node(Draft):
            """A row of a tree."""

            path = models.CharField(max_length=255)
            depth = models.PositiveIntegerField()
            numchild = models.PositiveIntegerField(default=0)
            live = models.BooleanField(editable=False)
            slug = models.SlugField()
            title = models.CharField(max_length=255)
            words = models.ManyToManyField("library.Tag")

            class Meta:
                """Of an app that is installed."""

                app_label = "library"

            def __str__(self) -> str:
                return self.title

        class Article(Node):
            """A row whose columns are in two tables."""

            cover = models.ForeignKey("library.Book", models.CASCADE)
            introduction = models.TextField()
            body = models.TextField()

            class Meta:
                """Of an app that is installed."""

                app_label = "library"

            def __str__(self) -> str:
                return self.title

        assert safe_fields(Article) == ["title", "introduction", "body", "slug", "due"]
        assert safe_fields(Node) == ["title", "slug", "live", "due", "is_draft"]
        assert omitted_fields(Article) == ["cover", "path", "depth", "numchild", "live", "is_draft", "words"]
        assert omitted_fields(Node) == ["path", "depth", "numchild", "words"]


PRIVATE = (
    *(
        "password",
        "pwd",
        "passphrase",
        "apiKey",
        "api_key",
        "private_key",
        "publicKey",
        "access_token",
        "client_secret",
    ),
    *(
        "password_hash",
        "salt",
        "otp",
        "totp_seed",
        "pin",
        "pin_code",
        "PIN",
        "cvc",
        "cvv2",
        "mfa_secret",
        "jwt",
        "nonce",
    ),
    *("recovery_codes", "backup_code", "activation_code", "security_answer", "reset_link", "webhook_url", "session_id"),
    *("ssn", "tax_id", "vat_id", "national_id", "passport_number", "drivers_license", "iban", "bic", "bank_account"),
    *("account_number", "card_number", "creditScore", "salary", "hourly_wage", "income", "net_worth", "payroll_number"),
    *(
        "date_of_birth",
        "dob",
        "age",
        "gender",
        "sex",
        "religion",
        "ethnicity",
        "marital_status",
        "diagnosis",
        "blood_type",
    ),
    *("health_notes", "disability", "email", "e_mail", "phone", "mobile", "fax", "tel", "home_address", "street"),
    *("postcode", "zip_code", "ip", "ip_address", "latitude", "lng", "last_login", "is_superuser"),
    *(
        "private_remark",
        "internal_comment",
        "confidential_text",
        "staff_notes",
        "customer_notes",
        "internalNote",
        "admin_note",
        "comment_internal",
        "payload_url",
        "callback_url",
        "share_slug",
        "magic_link_path",
    ),
)
PUBLIC = (
    *("title", "name", "author", "spinning", "shipping", "keyword", "keywords", "monkey", "discard"),
    *("pages", "opinion", "usage", "stage", "page", "sexton", "taxonomy", "tip", "zipper", "telescope", "agenda"),
    *("notes", "comment", "healthy", "code", "country_code", "price", "account", "bankrupt", "hotel", "recipe"),
)


def model_with(fields: dict[str, Any], name: str = "Person") -> Any:
    meta = type("Meta", (), {"app_label": "library"})
    return type(name, (models.Model,), {"__module__": __name__, "Meta": meta, **fields})


@pytest.mark.parametrize("name", PRIVATE)
def test_a_private_field_is_left_out(name: str) -> None:
    with isolate_apps("tests.model_resources.library"):
        person = model_with({"city": models.TextField(), name: models.CharField(max_length=9)})
        assert safe_fields(person) == ["city"]
        assert omitted_fields(person) == [name]


@pytest.mark.parametrize(
    ("model", "name"),
    [
        *(("ShareLink", "slug"), ("Share", "uuid"), ("Invitation", "code"), ("Webhook", "url")),
        *(
            ("ShareLinkBundle", "slug"),
            ("share_link_set", "slug"),
            ("InvitationBatch", "code"),
            ("DocumentShareLinkV2", "uuid"),
        ),
    ],
)
def test_a_field_that_lets_in_whoever_has_it_is_left_out(model: str, name: str) -> None:
    for kind, shown in ((model, ["title"]), ("Article", ["title", name])):
        fields = {"title": models.TextField(), name: models.CharField(max_length=9)}
        with isolate_apps("tests.model_resources.library"):
            assert safe_fields(model_with(fields, kind)) == shown


def test_it_says_how_to_limit_rows() -> None:
    written = mcp_source(apps.get_app_config("library"))
    with isolate_apps("tests.model_resources.library"):
        owned = {"title": models.TextField(), "author": models.ForeignKey(get_user_model(), models.CASCADE)}
        owned_source = mcp_source(apps.get_app_config("library"), [model_with(owned, "Article")])
    assert "To limit them, override get_queryset(self, ctx)." in written
    assert "super().get_queryset(ctx).filter(author=ctx.user)" in owned_source
    assert "queryset=" in written


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_field_whose_name_resembles_a_private_one_is_shown(name: str) -> None:
    with isolate_apps("tests.model_resources.library"):
        assert safe_fields(model_with({name: models.CharField(max_length=9)})) == [name]


@pytest.mark.parametrize(
    ("kind", "module"),
    [
        ("EncryptedCharField", "shop.fields"),
        ("TextPGPSymmetricKeyField", "pgcrypto.fields"),
        ("SearchField", "encrypted_fields.fields"),
        ("PasswordField", "shop.fields"),
        ("SecretText", "shop.fields"),
    ],
)
def test_a_field_of_a_class_that_encrypts_is_left_out(kind: str, module: str) -> None:
    own = type(kind, (models.CharField,), {"__module__": module})
    kept = type(f"Our{kind[-5:]}", (own,), {"__module__": "shop.more"})
    with isolate_apps("tests.model_resources.library"):
        person = model_with({"city": models.TextField(), "one": own(max_length=9), "two": kept(max_length=9)})
        assert safe_fields(person) == ["city"]


def test_a_field_that_is_called_private_where_people_read_it_is_left_out() -> None:
    with isolate_apps("tests.model_resources.library"):
        fields = {"city": models.TextField(), "number": models.CharField("social security number", max_length=9)}
        assert safe_fields(model_with(fields)) == ["city"]


UNUSUAL = """
from django.utils.translation import gettext_lazy

class Ticket(models.Model):
    pk = models.CompositePrimaryKey("project", "number")
    project = models.CharField(max_length=20)
    number = models.IntegerField()

class Car(models.Model):
    model = models.CharField(max_length=20)
    plate = models.SlugField(unique=True)
    _depth = models.IntegerField(default=0)

class Volume(models.Model):
    title = models.CharField(max_length=20)
    class Meta:
        verbose_name = "book"

class Tome(models.Model):
    title = models.CharField(max_length=20)
    class Meta:
        verbose_name = gettext_lazy("book")
        verbose_name_plural = gettext_lazy("books")
"""


def test_models_that_are_unlike_others_pass_the_checks_too(site: Site) -> None:
    site.append("library/models.py", UNUSUAL)
    site.append(
        "library/mcp.py", "from django_mcp import tool\n\n@tool\ndef search_cars() -> str:\n    'Find.'\n    return ''"
    )
    (site.path / "library" / "mcp.py").rename(site.path / "mysite" / "mcp.py")
    site.append("mysite/settings.py", 'INSTALLED_APPS.insert(0, "mysite")')
    site.run("manage.py", "startmcp", "library")
    source = (site.path / "library" / "mcp.py").read_text()
    assert fields_of(source).keys() == {"BookResource", "CarResource", "VolumeResource", "TomeResource"}
    assert "# Ticket is left out: its primary key is composite, so no single value identifies a row." in source
    assert fields_of(source)["CarResource"] == ["model", "plate"]
    assert '# lookup_field = "plate"' in source
    assert source.count("    plural = ") == 3
    ruff("format", "--isolated", "--check", site.path / "library" / "mcp.py")
    site.migrate(PEOPLE)


def test_the_key_of_a_row_of_any_model_is_left_out_as_the_relation_is() -> None:
    with isolate_apps("tests.model_resources.library"):
        kind = models.ForeignKey(ContentType, models.CASCADE, null=True)
        scope = GenericForeignKey("scope_type", "scope_id")
        fields = {"city": models.TextField(), "scope_type": kind, "scope_id": models.IntegerField(), "scope": scope}
        place = model_with(fields)
        assert (safe_fields(place), omitted_fields(place)) == (["city"], ["scope_type", "scope_id"])


def test_abbreviations_keep_their_capitals() -> None:
    with isolate_apps("tests.model_resources.library"):
        place = model_with({"city": models.TextField()})
        place._meta.verbose_name = "IP address"
        source = mcp_source(SimpleNamespace(label="library", get_models=lambda: [place]))  # type: ignore[arg-type]
    assert '"""IP address: describe here' in source


def test_models_of_earlier_versions_are_left_out() -> None:
    with isolate_apps("tests.model_resources.library"):
        options = {"app_label": "library"}
        case, history = (
            type(name, (models.Model,), {"__module__": module, "Meta": type("Meta", (), options), "title": title})
            for name, module, title in (
                ("Case", __name__, models.CharField(max_length=20)),
                ("HistoricalCase", "simple_history.models", models.CharField(max_length=20)),
            )
        )
        source = mcp_source(SimpleNamespace(label="library", get_models=lambda: [case, history]))  # type: ignore[arg-type]
    assert "# HistoricalCase is left out: it holds the history of another model." in source
    assert "class CaseResource" in source
    assert "HistoricalCaseResource" not in source


def test_only_the_models_that_are_named_are_written_also_of_other_apps(site: Site) -> None:
    site.append("library/models.py", MODELS)
    site.run("manage.py", "startmcp", "library", "--models", "Shelf", "auth.Group")
    source = (site.path / "library" / "mcp.py").read_text()
    assert fields_of(source) == {"ShelfResource": ["label"], "GroupResource": ["name"]}
    assert "from django.contrib.auth.models import Group" in source
    assert "Book" not in source
    site.migrate(PEOPLE)
    site.run("manage.py", "check", "--fail-level", "WARNING")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Nosuch", "There is no model 'Nosuch'; write app_label.Model. travel has "),
        ("auth.Nosuch", "There is no model 'auth.Nosuch'; write app_label.Model. auth has Group, Permission, User."),
        ("nosuch.Book", "There is no model 'nosuch.Book'; write app_label.Model."),
    ],
)
def test_a_model_that_is_not_there_is_refused_and_nothing_is_written(name: str, words: str) -> None:
    with pytest.raises(CommandError, match=re.escape(words)):
        call_command("startmcp", "travel", "--models", name)
