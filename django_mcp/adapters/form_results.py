"""What a caller is told of a form that was accepted, and whoever is to approve that of what was filled in."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django import forms
from django.core.files.uploadedfile import UploadedFile
from django.db import models
from django.forms.utils import pretty_name
from django.utils.text import capfirst
from pydantic_core import to_json

from django_mcp.adapters.form_schema import asked, foreign_column
from django_mcp.core.context import Context
from django_mcp.model_resources.access import Viewer
from django_mcp.model_resources.pagination import show_row
from django_mcp.model_resources.previews import unless_secret
from django_mcp.model_resources.schema import column_value, to_json_value
from django_mcp.primitives.output import ToolResult


def accepted(ctx: Context, done: Any, filled: Iterable[forms.BaseForm], *, change: bool) -> Any:
    """The result for what handling a form gave: rows as their declaration shows them, and otherwise what it is.

    Args:
        ctx: the call.
        done: a row, a list of rows, None, or anything that a tool may return.
        filled: the form, or those of a set, valid.
        change: a row that was there before was changed.
    """
    verb = "changed" if change else "created"
    if isinstance(done, models.Model):
        words = f"The {done._meta.verbose_name} was {verb}."  # noqa: SLF001 - Django's documented API
        return _told(words, _row(ctx, done, next(iter(filled))))
    if isinstance(done, list) and any(isinstance(each, models.Model) for each in done):
        rows = [_row(ctx, obj, form) for obj, form in zip(done, filled, strict=False)]
        options = done[0]._meta  # noqa: SLF001 - Django's documented API
        words = f"1 {options.verbose_name} was" if len(done) == 1 else f"{len(done)} {options.verbose_name_plural} were"
        return _told(f"{words} {verb}.", {"rows": [row for row in rows if row is not None]})
    if done is None:
        return "The form was accepted."
    return done


def _told(words: str, data: dict[str, Any] | None) -> Any:
    return words if data is None else ToolResult(data, text=f"{words}\n{to_json(data).decode()}")


def _row(ctx: Context, obj: Any, form: forms.BaseForm) -> dict[str, Any] | None:
    """A row as the model's declaration at the endpoint shows it to the caller, or else what was given of it.

    None: the declaration does not let the caller see it.
    """
    exposed = ctx.server.exposed.get(type(obj))
    if exposed is None:
        return {"pk": to_json_value(obj.pk), **given_values(form)}
    viewer = Viewer(ctx)
    return show_row(exposed, viewer, viewer.door(exposed).using(obj._state.db).filter(pk=obj.pk))  # noqa: SLF001


def filled_in(verb: str, name: str, filled: Sequence[tuple[forms.BaseForm, Mapping[str, Any]]]) -> dict[str, Any]:
    """A preview: what the caller gave, by its labels. What was there before is not read, for nobody said who may.

    Args:
        verb: ``"create"``, ``"update"``, or ``"submit"`` where it is no row.
        name: of what is filled in.
        filled: forms that are valid, and the arguments of each.
    """
    changes = []
    for place, (form, given) in enumerate(filled, 1):
        fields, numbered = asked(form), f" ({place})" if len(filled) > 1 else ""
        for field, value in given_values(form).items():
            if field in given:
                label = capfirst(str(fields[field].label or pretty_name(field)))
                entry = {"field": field, "label": label + numbered, "after": unless_secret(field, value)}
                changes.append({**entry, "hidden": True} if verb == "update" else entry)
    return {"verb": verb, "object": capfirst(name), "changes": changes}


def given_values(form: forms.BaseForm) -> dict[str, Any]:
    """The cleaned values of the fields that can be given, but no passwords; rows by what they were given by, or key."""
    return {
        name: field.mcp_given if hasattr(field, "mcp_given") else _plain(form, name)
        for name, field in asked(form).items()
        if name in form.cleaned_data and getattr(field.widget, "input_type", None) != "password"
    }


def _plain(form: Any, name: str) -> Any:
    value = form.cleaned_data[name]
    if (column := foreign_column(form, name)) is not None:
        return column_value(column, value)
    return value.name if isinstance(value, UploadedFile) else to_json_value(value)
