"""Creating, changing and deleting rows, for those who declared that callers may."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from django.forms import BaseModelForm
from django.utils.translation import gettext as _

from django_mcp.core.context import Context
from django_mcp.core.signatures import function, shaped
from django_mcp.exposure.columns import row_schema
from django_mcp.exposure.declaration import ModelResource
from django_mcp.exposure.exposed import Exposed
from django_mcp.exposure.permitted import Permitted
from django_mcp.exposure.write_fields import declared_names, field_problems, read_field
from django_mcp.exposure.write_previews import preview_create, preview_delete, preview_update, rows_of
from django_mcp.exposure.write_saving import Writer, run_delete
from django_mcp.exposure.write_types import write_type
from django_mcp.primitives.base import phrase
from django_mcp.primitives.function import EMPTY, Parameter
from django_mcp.primitives.tool import Tool

_DELETED = {
    "type": "object",
    "properties": {"deleted": {"type": "string", "description": "The URI that the row had."}},
    "required": ["deleted"],
    "additionalProperties": False,
}


def writing_tools(exposed: Exposed) -> Iterator[Tool]:
    """The tools for the verbs that a declaration opts in to."""
    verbs = exposed.resource.verbs
    fields = [read_field(exposed, name) for name in declared_names(exposed)] if {"create", "update"} & {*verbs} else []
    row = shaped(row_schema(exposed, exposed.columns))
    if "create" in verbs:
        asked = [each.parameter(exposed, change=False) for each in fields]
        words = "Creates one row, and gives it with all that is shown of it."
        writer = Writer(exposed, fields, change=False)
        look = partial(preview_create, writer)
        yield _tool(
            exposed, "create", writer.create, look, words, asked, row, writer, destructive=False, idempotent=False
        )
    if "update" in verbs:
        asked = [_which(exposed), *(each.parameter(exposed, change=True) for each in fields)]
        words = "Changes one row: what is given, and nothing else. Gives it with all that is shown of it."
        writer = Writer(exposed, fields, change=True)
        yield _tool(exposed, "update", writer.update, partial(preview_update, writer), words, asked, row, writer)
    if "delete" in verbs:
        words = "Deletes one row, and what there cannot be without it."
        call, look = partial(run_delete, exposed), partial(preview_delete, exposed)
        yield _tool(exposed, "delete", call, look, words, [_which(exposed)], shaped(_DELETED))


def _which(exposed: Exposed) -> Parameter:
    return Parameter(
        exposed.lookup_name, write_type(exposed.lookup), EMPTY, "Of which row, as search and URIs show it."
    )


def _tool(
    exposed: Exposed,
    verb: str,
    call: Callable[[Context, Mapping[str, Any]], Any],
    look: Callable[[Context, Mapping[str, Any]], Any],
    words: str,
    parameters: list[Parameter],
    returns: Any,
    writer: Writer | None = None,
    *,
    destructive: bool = True,
    idempotent: bool = True,
) -> Tool:
    resource, name = exposed.resource, f"{verb}_{exposed.name}"
    tool = Tool(
        function(call, name, f"{exposed.description}\n\n{words}", parameters, resource, returns),
        context_type=Context,
        name=name,
        title=phrase(f"{verb.capitalize()} {{}}", exposed.options.verbose_name),
        icons=resource.icons,
        read_only=False,
        destructive=destructive,
        idempotent=idempotent,
        open_world=False,
        scopes=(*resource.scopes, *resource.write_scopes),
        visible=Permitted(resource, verb),
        preview=function(look, f"preview_{name}", "", parameters, resource),
    )
    tool.rows_of = partial(rows_of, exposed, writer)
    # Only what the site wrote itself can ask the person at the client.
    hook = "delete_model" if verb == "delete" else "save_model"
    tool.speaks = getattr(type(resource), hook) is not getattr(ModelResource, hook)
    return tool


# Problems


def writing_problems(exposed: Exposed) -> Iterator[tuple[str, str]]:
    """What is wrong with how a declaration lets callers write, and what would be right."""
    resource = exposed.resource
    if isinstance(resource.verbs, str) or not {"create", "update"} & {*resource.verbs}:
        return
    wrong = _wrong_fields(resource) if resource.form is None else _wrong_form(exposed)
    if wrong is None:
        yield from field_problems(exposed)
    else:
        yield wrong


def _wrong_fields(resource: ModelResource) -> tuple[str, str] | None:
    if not resource.write_fields:
        verbs = _(" and ").join(repr(verb) for verb in resource.verbs if verb != "delete")
        text = _("verbs has %(verbs)s, and there is nothing to write") % {"verbs": verbs}
        return text, _("Name the fields: write_fields = [...], or a form.")
    return None


def _wrong_form(exposed: Exposed) -> tuple[str, str] | None:
    resource, form = exposed.resource, exposed.resource.form
    if not (isinstance(form, type) and issubclass(form, BaseModelForm) and form._meta.model):  # noqa: SLF001
        return _("form is %(form)r") % {"form": form}, _("Give a subclass of ModelForm that has a Meta with a model.")
    if not issubclass(exposed.model, form._meta.model):  # noqa: SLF001 - of ModelForm
        text = _("form is of %(model)s") % {"model": form._meta.model._meta.label}  # noqa: SLF001
        return text, _("Give one of %(model)s.") % {"model": exposed.options.label}
    if form._meta.fields is None:  # noqa: SLF001 - of ModelForm
        hint = _("Name them in its Meta.fields, so that new columns cannot be written by themselves.")
        return _("form %(form)s does not say which fields it has") % {"form": form.__name__}, hint
    if resource.write_fields:
        return _("both write_fields and form are declared"), _("Keep one of them.")
    return None
