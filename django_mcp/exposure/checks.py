"""System checks of declarations."""

import dis
import inspect
from collections.abc import Iterator
from typing import Any

from django.core.checks import CheckMessage, Error, Warning  # noqa: A004
from django.db import models
from django.utils.translation import gettext as _

from django_mcp.core.server import every_server
from django_mcp.exposure.declaration import ModelResource
from django_mcp.exposure.exposed import Exposed
from django_mcp.exposure.problems import found_problems
from django_mcp.exposure.write_fields import declared_names, has_default

_SETTING = ("__init__", "clean", "clean_fields", "full_clean", "save", "save_base", "_post_clean")
"""Methods of models and forms that a new row goes through."""
_LOADING = frozenset({"LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR"})
"""Instructions by which one method finds another one."""


def check_declarations() -> list[CheckMessage]:
    """What keeps a ``ModelResource`` from being served."""
    return [Error(problem.text, hint=problem.hint, id=problem.id) for problem in found_problems()]


def check_required_columns() -> Iterator[CheckMessage]:
    """Models whose rows no caller can create, since nothing sets a column that they need."""
    for exposed in (each for server in every_server() for each in server.exposed.values() if each.is_sound):
        if names := _unset(exposed):
            yield Warning(
                _("%(resource)r: create_%(name)s sets no value of %(columns)s, which every row of %(model)s must have.")
                % {
                    "resource": exposed.resource,
                    "name": exposed.name,
                    "columns": ", ".join(names),
                    "model": exposed.options.label,
                },
                hint=_(
                    "Set them in save_model, where a row of a tree is also put below its parent. If a signal or the "
                    "model itself sets them, override save_model with a call of super() to say so."
                ),
                id="django_mcp.W043",
            )


def _unset(exposed: Exposed) -> list[str]:
    """Return the columns that a new row must have, and that neither a caller nor the site's code is seen to set."""
    resource = exposed.resource
    if "create" not in resource.verbs or type(resource).save_model is not ModelResource.save_model:
        return []
    given = declared_names(exposed)
    needed = [each for each in exposed.options.concrete_fields if each.name not in given and _must_be_set(each)]
    assigned = _assigned(exposed.model, resource.form) if needed else frozenset()
    return [each.name for each in needed if not {each.name, each.attname} & assigned]


def _must_be_set(field: Any) -> bool:
    """Return True for a column that gets a value neither from its field nor from the database."""
    sets_itself = not type(field).pre_save.__module__.startswith("django.")
    is_link = field.remote_field is not None and field.remote_field.parent_link
    is_made = getattr(field, "generated", False) or isinstance(field, models.AutoField) or is_link
    return not (field.null or field.blank or has_default(field) or is_made or sets_itself)


def _assigned(*classes: Any) -> frozenset[str]:
    """Return the names of attributes that *classes* and their parents assign to in the methods that a new row goes
    through, and in those of their own that these call, as far as code shows.
    """
    parents = [
        cls for each in classes for cls in getattr(each, "__mro__", ()) if not cls.__module__.startswith("django.")
    ]
    assigned: set[str] = set()
    seen: set[str] = set()
    waiting = {*_SETTING}
    while waiting:
        seen.add(name := waiting.pop())
        for method in (vars(cls).get(name) for cls in parents):
            code = getattr(inspect.unwrap(method), "__code__", None) if callable(method) else None
            for step in () if code is None else dis.get_instructions(code):
                if step.opname == "STORE_ATTR":
                    assigned.add(step.argval)
                elif step.opname in _LOADING and step.argval not in seen:
                    waiting.add(step.argval)
    return frozenset(assigned)


ALWAYS = (check_declarations, check_required_columns)
