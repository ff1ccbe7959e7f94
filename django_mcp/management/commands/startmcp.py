"""``startmcp``: generate a first ``mcp.py`` for an app."""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import dedent
from typing import Any

from django.apps import AppConfig, apps
from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import models
from django.utils.text import capfirst

from django_mcp.auth.base import AllowAny, authenticators
from django_mcp.core.server import server
from django_mcp.model_resources.bound_resource import BoundResource
from django_mcp.model_resources.options import ModelResource
from django_mcp.model_resources.paths import is_composite
from django_mcp.secret_names import GENERATED, LINKS, ends_in, match

MOST = 8
"""Limit of fields in an example."""
PERSONAL = re.compile(
    r"e_?mail|phone|address|birth|salary|salaries|passport|religio|ethnic|nationality|marital|medical|diagnos|disabilit"
    r"|bank_?account|account_(?:no|number)|social_?security|national_id|license|licence|last_login|is_superuser|is_staff"
    r"|(?:^|_)(?:mobile|fax|tel|street|post_?code|postal|zip|zip_?code|ip|lat|latitude|lng|longitude|dob|age|gender|sex"
    r"|wages?|income|payroll|net_worth|iban|bic|swift|ssn|tax_?id|tax_number|vat_?id|cards?|credit|health|blood"
    r"|private|internal|confidential|sensitive|hidden)(?:_|$)"
    r"|_notes?$",
)
"""Names of fields with private data, which the site's owner may add."""
ENCRYPTED = re.compile(r"crypt|pgp|cipher|secret|password|token|hash|digest", re.IGNORECASE)
"""Names of classes, or of their modules, whose fields hold secrets, such as of django-cryptography."""
SIMPLE = (
    models.CharField,
    models.TextField,
    models.IntegerField,
    models.DecimalField,
    models.FloatField,
    models.BooleanField,
    models.DateField,
    models.TimeField,
    models.DurationField,
    models.UUIDField,
)
"""Field types with plain values: no files, binary data, JSON or relations."""
HISTORY = frozenset({"pghistory", "simple_history"})
"""Packages whose models hold earlier versions of rows."""
TITLES = frozenset({"title", "name", "headline", "label"})
"""Usual names of a row's title."""
TREES = (frozenset({"path", "depth", "numchild"}), frozenset({"lft", "rght", "tree_id", "level"}))
"""Fields of django-treebeard and django-mptt."""


def safe_fields(model: type[models.Model]) -> list[str]:
    """Return the names of fields to show: titles, then the model's own fields, then inherited ones."""
    hidden = _of_tree(model) | _generic_keys(model)
    return [
        field.name
        for field in _fields(model)
        if _is_safe(field) and field.name not in hidden and (field.editable or field.model is model)
    ][:MOST]


def omitted_fields(model: type[models.Model]) -> list[str]:
    shown, sets = safe_fields(model), model._meta.many_to_many  # noqa: SLF001 - Django's documented API
    return [field.name for field in (*_fields(model), *sets) if field.name not in shown and not field.primary_key]


def searchable_fields(model: type[models.Model]) -> list[str]:
    meta = model._meta  # noqa: SLF001 - Django's documented API
    fields = (meta.get_field(name) for name in safe_fields(model))
    return [str(field.name) for field in fields if _is_text(field) and not getattr(field, "choices", None)][:3]


def _fields(model: type[models.Model]) -> Iterator[Any]:
    fields = model._meta.concrete_fields  # noqa: SLF001 - likewise
    yield from sorted(fields, key=lambda field: (field.name not in TITLES, field.model is not model, *_rank(field)))


def _rank(field: Any) -> tuple[bool, bool]:
    # Fields of the class itself come before those of abstract parents, and editable ones first.
    abstract = [base for base in field.model.__mro__ if getattr(getattr(base, "_meta", None), "abstract", False)]
    return any(field.name in {own.name for own in base._meta.local_fields} for base in abstract), not field.editable  # noqa: SLF001


def _of_tree(model: type[models.Model]) -> frozenset[str]:
    names = {field.name for field in _fields(model)}
    return frozenset[str]().union(*(tree for tree in TREES if tree <= names))


def _generic_keys(model: type[models.Model]) -> frozenset[str]:
    # These columns, with keys of rows of any model, are relations like the others.
    fields = model._meta.private_fields  # noqa: SLF001 - Django's documented API
    return frozenset(str(name) for field in fields if (name := getattr(field, "fk_field", None)))


def _is_safe(field: Any) -> bool:
    return (
        isinstance(field, SIMPLE)
        and not field.name.startswith("_")
        and not isinstance(field, models.EmailField | models.FilePathField)
        and not field.primary_key
        and not any(map(_is_private, (field.name, str(field.verbose_name))))
        and not _lets_in(field)
        and not any(ENCRYPTED.search(f"{base.__module__}.{base.__name__}") for base in type(field).__mro__)
    )


def _lets_in(field: Any) -> bool:
    """Return True if the value seems to open something without a login, such as the slug of a share link."""
    words = _snake_case(field.model.__name__).split("_")
    # Also of a bundle or batch of such links: "share_link_slug" of a ShareLinkBundle.
    return any(ends_in(f"{'_'.join(words[:count])}_{field.name}", LINKS) for count in range(1, len(words) + 1))


def _is_private(name: str) -> bool:
    return bool(match(name, GENERATED) or PERSONAL.search(_snake_case(name)))


def _snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|\W+", "_", name).lower()


def _is_key(field: Any) -> bool:
    return field.unique and not field.null and isinstance(field, models.CharField | models.UUIDField)


def _is_text(field: Any) -> bool:
    return isinstance(field, models.CharField | models.TextField)


WIDTH = 110


def mcp_source(app: AppConfig, chosen: Sequence[type[models.Model]] = ()) -> str:
    """Return the source of ``mcp.py``. Models require Django's view permission, as in the admin.

    *chosen* are the models to write, also of other apps. Default: those of the app.
    """
    own = chosen or [model for model in app.get_models() if not model._meta.proxy and safe_fields(model)]  # noqa: SLF001
    reasons = {model: why for model in own if (why := _why_not(model, is_chosen=bool(chosen)))}
    shown = [model for model in own if model not in reasons]
    names = dict(_names(shown))
    parts = [_head(app, shown), *(_resource(model, names.get(model)) for model in shown), _tool(app, shown)]
    if reasons:
        parts.insert(-1, "\n".join(f"# {model.__name__} is left out: {why}." for model, why in reasons.items()))
    return "\n\n\n".join(part.strip("\n") for part in parts) + "\n"


def _why_not(model: type[models.Model], *, is_chosen: bool) -> str | None:
    if is_composite(model._meta.pk):  # noqa: SLF001 - Django's documented API
        return "its primary key is composite, so no single value identifies a row"
    if not safe_fields(model):
        return "it has no fields that can be shown without a look at them"
    if is_chosen:
        return None
    packages = {base.__module__.partition(".")[0] for base in model.__mro__}
    return "it holds the history of another model" if packages & HISTORY else None


def _names(shown: Sequence[type[models.Model]]) -> Iterator[tuple[type[models.Model], tuple[str, str]]]:
    """Yield the models whose default names other tools have already, with other names."""
    taken = {*server.tools}
    for model in shown:
        bound, label = BoundResource(ModelResource(model, server)), model._meta.app_label  # noqa: SLF001
        own = (bound.name, bound.plural)
        longer = (f"{label}_{bound.name}", f"{label}_{bound.plural}")
        longest = (f"{label}_{model._meta.model_name}", f"{label}_{model._meta.model_name}s")  # noqa: SLF001
        chosen = next(
            (candidate for candidate in (own, longer, longest) if taken.isdisjoint(_tools(*candidate))), longest
        )
        taken |= _tools(*chosen)
        if chosen != own:
            yield model, chosen


def _tools(name: str, plural: str) -> set[str]:
    return {f"get_{name}", f"search_{plural}"}


def tool_name(app: AppConfig) -> str:
    return f"describe_{app.label}"


def _head(app: AppConfig, shown: Sequence[type[models.Model]]) -> str:
    names = ["ModelResource", "register", "tool"] if shown else ["tool"]
    lines = [f'"""MCP tools and resources of the app {app.label}. Discovered like admin.py."""', ""]
    if not shown:
        return "\n".join([*lines, f"from django_mcp import {', '.join(names)}"])
    imports = {"django_mcp": names}
    for model in shown:
        imports.setdefault(model.__module__, []).append(model.__name__)
    # Plain sort order: installed and local packages cannot be told apart here.
    return "\n".join([*lines, *(_import(module, imports[module]) for module in sorted(imports))])


def _import(module: str, names: Sequence[str]) -> str:
    line = f"from {module} import {', '.join(sorted(names))}"
    if len(line) <= 88:  # noqa: PLR2004 - of ruff's own default
        return line
    return "\n".join([f"from {module} import (", *(f"    {name}," for name in sorted(names)), ")"])


def _resource(model: type[models.Model], names: tuple[str, str] | None) -> str:
    meta = model._meta  # noqa: SLF001 - Django's documented API
    lines = [f"@register({model.__name__})", f"class {model.__name__}Resource(ModelResource):"]
    lines += [f'    """{_described(model)}"""', ""]
    if names is not None:
        name, plural = map(json.dumps, names)
        lines += ["    # Other tools have the names of the model.", f"    name = {name}", f"    plural = {plural}"]
        lines += [f"    title = {json.dumps(capfirst(names[1].replace('_', ' ')))}"]
    lines += ["    # Fields that clients see, in addition to the primary key and the URI."]
    lines += _listed("fields", safe_fields(model))
    if others := omitted_fields(model):
        lines += ["    # Hidden:", *(f"    #   {name}" for name in others)]
    if unique := [field.name for field in _fields(model) if field.name in safe_fields(model) and _is_key(field)]:
        lines += ["    # To identify rows by it instead of the primary key:", f'    # lookup_field = "{unique[0]}"']
    if words := searchable_fields(model):
        lines += _listed("search_fields", words)
    lines += [
        f"    # Requires the permission {meta.app_label}.view_{meta.model_name}. To allow all callers:",
        "    # view_permission = None",
        *_of_rows(model),
    ]
    return "\n".join(lines)


def _of_rows(model: type[models.Model]) -> list[str]:
    relations = (field for field in model._meta.concrete_fields if field.related_model is get_user_model())  # noqa: SLF001
    owner = next((field.name for field in relations), None)
    if owner is None:
        return ["    # Callers see all rows. To limit them, override get_queryset(self, ctx)."]
    return [
        "    # Callers see all rows. To limit them, for example to their own:",
        "    # def get_queryset(self, ctx):",
        f"    #     return super().get_queryset(ctx).filter({owner}=ctx.user)",
    ]


def _described(model: type[models.Model]) -> str:
    name = str(model._meta.verbose_name).replace('"', "'").replace("\\", "")  # noqa: SLF001 - likewise
    return f"{capfirst(name[:60])}: describe here what a model needs to know."


def _listed(name: str, values: Sequence[str]) -> Iterator[str]:
    line = f"    {name} = [{', '.join(json.dumps(value) for value in values)}]"
    if len(line) <= 88:  # noqa: PLR2004 - of ruff's own default
        yield line
        return
    yield f"    {name} = ["
    yield from (f"        {json.dumps(value)}," for value in values)
    yield "    ]"


def _tool(app: AppConfig, shown: Sequence[type[models.Model]]) -> str:
    if not shown:
        return dedent(f'''
            # To require a permission: @tool(read_only=True, permission="{app.label}.…").
            @tool(read_only=True)
            def {tool_name(app)}(topic: str = "") -> str:
                """Describe what this part of the site is for.

                Args:
                    topic: Topic of the description. Default: everything.
                """
                return f"This is {app.label}. {{topic}}".strip()
        ''')
    model = shown[0]
    meta = model._meta  # noqa: SLF001 - likewise
    permission = f"{meta.app_label}.view_{meta.model_name}"
    return dedent(f'''
        # Without "permission", every caller may use it. It counts all rows: get_queryset
        # limits what a ModelResource offers, and queryset= what a form_tool changes, but a
        # function makes its own query.
        @tool(read_only=True, permission="{permission}")
        def {tool_name(app)}() -> str:
            """Report how many rows of the model {model.__name__} there are."""
            return f"{{{model.__name__}._default_manager.count()}} × {_one(model)}"
    ''')


def _one(model: type[models.Model]) -> str:
    return "".join(character for character in str(model._meta.verbose_name) if character not in '{}"\\')  # noqa: SLF001 - likewise


def _model(app: AppConfig, name: str) -> type[models.Model]:
    """Return a model by ``app_label.Model``, or by the name alone if it is one of *app*.

    Raises:
        CommandError: there is none.
    """
    label, _, model = name.rpartition(".")
    try:
        return apps.get_model(label or app.label, model)
    except LookupError:
        config = apps.app_configs.get(label or app.label)
        known = sorted(found.__name__ for found in config.get_models()) if config else []
        more = f" {config.label} has {', '.join(known) or 'no models'}." if config else ""
        raise CommandError(f"There is no model {name!r}; write app_label.Model.{more}") from None


class Command(BaseCommand):
    """See ``help``."""

    help = "Writes a first mcp.py for an app, with a ModelResource for each model and an example tool."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("app", metavar="APP", help="label of an installed app, as for makemigrations")
        parser.add_argument(
            "--models",
            metavar="MODEL",
            nargs="+",
            default=[],
            help="write only these models, such as Book, or auth.Group of another app. Default: all models of the app",
        )

    def handle(self, *_: Any, **options: Any) -> None:
        app = self._app(options["app"])
        chosen = [_model(app, name) for name in dict.fromkeys(options["models"])]
        names = [model.__name__ for model in chosen]
        if twice := {name for name in names if names.count(name) > 1}:
            raise CommandError(
                f"Several models are called {twice.pop()}; write one of them, and add the other by hand."
            )
        path = Path(app.path) / "mcp.py"
        if {"site-packages", "dist-packages"} & set(path.parts):
            raise CommandError(
                f"The app {app.label!r} is an installed package ({app.path}). Register its models in the mcp.py of "
                "one of your own apps."
            )
        if (Path(app.path) / "mcp").is_dir():
            raise CommandError(f"The package {path.with_suffix('')} already exists and is loaded instead of an mcp.py.")
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(mcp_source(app, chosen))
        except FileExistsError:
            raise CommandError(f"{path} already exists; nothing was written.") from None
        except OSError as error:
            raise CommandError(f"{path} cannot be written: {error.strerror}.") from None
        self.stdout.write(self.style.SUCCESS(f"Wrote {path}."))
        self.stdout.write(
            "\nNext:\n"
            "  1. Review it: clients see these fields. Remove those that they should not see.\n"
            "  2. manage.py check\n"
            f"  3. manage.py mcp_inspect --as USERNAME     what a user sees, and why something is hidden\n"
            f"  4. manage.py mcp_call {tool_name(app)} --as USERNAME\n"
            f"  5. manage.py mcp_config CLIENT             connect Claude Code, VS Code and others to /{server.path}"
        )
        if all(isinstance(authenticator, AllowAny) for authenticator in authenticators(server)):
            self.stdout.write(
                f"\n/{server.path} has no authentication yet, so everything that requires a permission is hidden. "
                "Configure authentication\n(docs/authentication.md), or set view_permission = None on single models."
            )

    @staticmethod
    def _app(label: str) -> AppConfig:
        found = {config.label: config for config in apps.get_app_configs()} | {
            config.name: config for config in apps.get_app_configs()
        }
        if label not in found:
            own = sorted(config.label for config in apps.get_app_configs() if not config.name.startswith("django."))
            raise CommandError(f"There is no app {label!r} in INSTALLED_APPS; choose one of {', '.join(own)}.")
        return found[label]
