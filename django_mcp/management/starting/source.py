"""The text of a first ``mcp.py``, fitted to an app."""

import json
from collections.abc import Iterator, Sequence
from textwrap import dedent

from django.apps import AppConfig
from django.db import models

from django_mcp.management.starting.fields import left_out, safe_fields, searchable

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
