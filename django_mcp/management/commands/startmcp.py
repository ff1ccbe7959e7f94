"""``startmcp``: write the first ``mcp.py`` of an app."""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import dedent
from typing import Any

from django.apps import AppConfig, apps
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import models

from django_mcp.auth.base import AllowAny, authenticators
from django_mcp.core.server import server

MOST = 8
"""Fields of an example."""
SECRETS = re.compile(
    r"passw|passphrase|passcode|secret|token|key|hash|salt|credential|signature|auth(?!or)|authoriz|cookie|session|otp|pin\b|cvv|iban|"
    r"card|ssn|nonce|digest",
    re.IGNORECASE,
)
"""Words in names of what is nobody's business."""
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
"""Kinds of fields whose values are plain: no files, no bytes, no JSON, nothing that leads to other rows."""
PERSONAL = re.compile(r"e_?mail|phone|mobile|address|birth|last_login|is_superuser|is_staff", re.IGNORECASE)
"""Words in names of what belongs to a person: left for the site's owner to add."""


TITLES = frozenset({"title", "name", "headline", "label"})
"""What models usually call a row by."""
TREES = (frozenset({"path", "depth", "numchild"}), frozenset({"lft", "rght", "tree_id", "level"}))
"""Fields of django-treebeard and django-mptt."""


def safe_fields(model: type[models.Model]) -> list[str]:
    """Names of fields that an example shows: what a row is called by, then the model's own, then its parents'."""
    hidden = _of_tree(model)
    return [
        field.name
        for field in _fields(model)
        if _is_safe(field) and field.name not in hidden and (field.editable or field.model is model)
    ][:MOST]


def left_out(model: type[models.Model]) -> list[str]:
    """Names of all further columns and sets of rows, but for the primary key, which each row is shown with."""
    shown, sets = safe_fields(model), model._meta.many_to_many  # noqa: SLF001 - Django's documented API
    return [field.name for field in (*_fields(model), *sets) if field.name not in shown and not field.primary_key]


def searchable(model: type[models.Model]) -> list[str]:
    """Those among them that words can be looked for in."""
    meta = model._meta  # noqa: SLF001 - Django's documented API
    fields = (meta.get_field(name) for name in safe_fields(model))
    return [str(each.name) for each in fields if _is_text(each) and not getattr(each, "choices", None)][:3]


def _fields(model: type[models.Model]) -> Iterator[Any]:
    """Give what rows are called by, then the model's own columns, then those of its parents."""
    fields = model._meta.concrete_fields  # noqa: SLF001 - likewise
    yield from sorted(fields, key=lambda field: (field.name not in TITLES, field.model is not model, *_rank(field)))


def _rank(field: Any) -> tuple[bool, bool]:
    """Give what stands in the class itself and is for people to fill in the lowest rank."""
    abstract = [each for each in field.model.__mro__ if getattr(getattr(each, "_meta", None), "abstract", False)]
    return any(field.name in {own.name for own in each._meta.local_fields} for each in abstract), not field.editable  # noqa: SLF001


def _of_tree(model: type[models.Model]) -> frozenset[str]:
    """Return the names of fields in which packages for trees keep where a row is."""
    names = {field.name for field in _fields(model)}
    return frozenset[str]().union(*(each for each in TREES if each <= names))


def _is_safe(field: Any) -> bool:
    return (
        isinstance(field, SIMPLE)
        and not isinstance(field, models.EmailField | models.FilePathField)
        and not field.primary_key
        and not SECRETS.search(field.name)
        and not SECRETS.search(str(field.verbose_name))
        and not PERSONAL.search(field.name)
    )


def _is_text(field: Any) -> bool:
    return isinstance(field, models.CharField | models.TextField)


WIDTH = 110


def source_of(app: AppConfig) -> str:
    """What to write.

    Args:
        app: the app. Its models are shown by their own permissions: who may view them in the admin may read them.
    """
    shown = [model for model in app.get_models() if not model._meta.proxy and safe_fields(model)]  # noqa: SLF001
    parts = [_head(app, shown), *(_resource(model) for model in shown), _tool(app, shown)]
    return "\n\n\n".join(part.strip("\n") for part in parts) + "\n"


def tool_name(app: AppConfig) -> str:
    """What the tool is called."""
    return f"describe_{app.label}"


def _head(app: AppConfig, shown: Sequence[type[models.Model]]) -> str:
    names = ["ModelResource", "register", "tool"] if shown else ["tool"]
    lines = [f'"""What the app {app.label} offers to AI clients over MCP. It is found like admin.py."""', ""]
    if not shown:
        return "\n".join([*lines, f"from django_mcp import {', '.join(names)}"])
    imports = {"django_mcp": names}
    for model in shown:
        imports.setdefault(model.__module__, []).append(model.__name__)
    # In the order of a sorted file: site packages and the site's own look the same from here.
    return "\n".join([*lines, *(_import(module, imports[module]) for module in sorted(imports))])


def _import(module: str, names: Sequence[str]) -> str:
    line = f"from {module} import {', '.join(sorted(names))}"
    if len(line) <= 88:  # noqa: PLR2004 - of ruff's own default
        return line
    return "\n".join([f"from {module} import (", *(f"    {name}," for name in sorted(names)), ")"])


def _resource(model: type[models.Model]) -> str:
    meta = model._meta  # noqa: SLF001 - Django's documented API
    lines = [f"@register({model.__name__})", f"class {model.__name__}Resource(ModelResource):"]
    lines += [f'    """{_described(model)}"""', ""]
    lines += ["    # This is shown, with the primary key and the URI, and nothing else."]
    lines += _listed("fields", safe_fields(model))
    if others := left_out(model):
        lines += ["    # Not shown:", *(f"    #   {name}" for name in others)]
    if words := searchable(model):
        lines += _listed("search_fields", words)
    lines += [
        f"    # For users with the permission {meta.app_label}.view_{meta.model_name}. For all who may call:",
        "    # view_permission = None",
    ]
    return "\n".join(lines)


def _described(model: type[models.Model]) -> str:
    name = str(model._meta.verbose_name).replace('"', "'").replace("\\", "")  # noqa: SLF001 - likewise
    return f"{name[:60].capitalize()}: say here what a model has to know of it."


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
            # Only for users with a permission: @tool(read_only=True, permission="{app.label}.…").
            @tool(read_only=True)
            def {tool_name(app)}(topic: str = "") -> str:
                """Say what this part of the site is for.

                Args:
                    topic: What it should be about; all of it if left out.
                """
                return f"This is {app.label}. {{topic}}".strip()
        ''')
    model = shown[0]
    meta = model._meta  # noqa: SLF001 - likewise
    permission = f"{meta.app_label}.view_{meta.model_name}"
    return dedent(f'''
        # Without "permission" it is for all who may call.
        @tool(read_only=True, permission="{permission}")
        def {tool_name(app)}() -> str:
            """Say how much there is of what this part of the site keeps."""
            return f"{{{model.__name__}._default_manager.count()}} × {_one(model)}"
    ''')


def _one(model: type[models.Model]) -> str:
    return "".join(each for each in str(model._meta.verbose_name) if each not in '{}"\\')  # noqa: SLF001 - likewise


class Command(BaseCommand):
    """See ``help``."""

    help = "Writes a first mcp.py for an app, fitted to its models: a resource for each, and a tool."

    def add_arguments(self, parser: CommandParser) -> None:
        """For which app."""
        parser.add_argument("app", metavar="APP", help="label of an installed app, as for makemigrations")

    def handle(self, *_: Any, **options: Any) -> None:
        """Write it, and say what to do next.

        Raises:
            CommandError: there is no such app, or an ``mcp.py`` already.
        """
        app = self._app(options["app"])
        path = Path(app.path) / "mcp.py"
        if {"site-packages", "dist-packages"} & set(path.parts):
            raise CommandError(
                f"The app {app.label!r} is not yours but installed ({app.path}). Register its models in an mcp.py of "
                "one of your own apps."
            )
        if (Path(app.path) / "mcp").is_dir():
            raise CommandError(f"There is a package {path.with_suffix('')} already, which is read as mcp.py would be.")
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(source_of(app))
        except FileExistsError:
            raise CommandError(f"There is {path} already; nothing was written.") from None
        except OSError as error:
            raise CommandError(f"{path} cannot be written: {error.strerror}.") from None
        self.stdout.write(self.style.SUCCESS(f"Wrote {path}."))
        self.stdout.write(
            "\nNext:\n"
            "  1. Read it: what it shows is what clients see. Take out what they should not.\n"
            "  2. manage.py check\n"
            f"  3. manage.py mcp_inspect --as USERNAME     what a user sees, and why not\n"
            f"  4. manage.py mcp_call {tool_name(app)} --as USERNAME\n"
            f"  5. manage.py mcp_config CLIENT             how Claude Code, VS Code and others find /{server.path}"
        )
        if all(isinstance(each, AllowAny) for each in authenticators(server)):
            self.stdout.write(
                f"\n/{server.path} knows nobody by name yet, so what needs a permission exists for nobody there. Let "
                "users sign in (docs/authentication.md),\nor open single models with view_permission = None."
            )

    @staticmethod
    def _app(label: str) -> AppConfig:
        found = {each.label: each for each in apps.get_app_configs()} | {
            each.name: each for each in apps.get_app_configs()
        }
        if label not in found:
            own = sorted(each.label for each in apps.get_app_configs() if not each.name.startswith("django."))
            raise CommandError(f"There is no app {label!r} in INSTALLED_APPS; APP is one of {', '.join(own)}.")
        return found[label]
