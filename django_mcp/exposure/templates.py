"""The resources of a model: a list of its rows, each row, its long fields, and what the model is made of."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Literal

from django.http import Http404
from pydantic import Field

from django_mcp.core.context import Context
from django_mcp.core.signatures import function, one_of
from django_mcp.exposure import cursors
from django_mcp.exposure.completing import complete_lookup
from django_mcp.exposure.describing import describe, schema_uri
from django_mcp.exposure.exposed import Content, Exposed
from django_mcp.exposure.fetching import without_weight
from django_mcp.exposure.files import media_type, read_file
from django_mcp.exposure.markdown import to_markdown
from django_mcp.exposure.ordering import Sorting
from django_mcp.exposure.pages import read_page, read_row
from django_mcp.exposure.permitted import Permitted
from django_mcp.exposure.viewing import Viewer, find_row
from django_mcp.primitives.base import phrase
from django_mcp.primitives.function import EMPTY, Parameter
from django_mcp.primitives.resource import Resource
from django_mcp.protocol.content import ResourceContents

FORMAT = Parameter("format", Literal["json", "markdown"], "json", None)


def resources(exposed: Exposed) -> Iterator[Resource]:
    """All resources of a model; those without variables are listed by themselves."""
    one, many = exposed.options.verbose_name, exposed.titles
    later = Parameter("cursor", Annotated[str, Field(max_length=4096)], "", None)
    yield _resource(exposed, exposed.base, exposed.plural, many, partial(_list, exposed), [])
    yield _resource(
        exposed,
        f"{exposed.base}{{?cursor}}",
        f"{exposed.plural}-page",
        phrase("{}, further on", many),
        partial(_list, exposed),
        [later],
    )
    lookup = Parameter(exposed.lookup_name, str, EMPTY, None)
    row = f"{exposed.base}/{{{exposed.lookup_name}}}"
    options: dict[str, Any] = {
        "completions": {exposed.lookup_name: complete_lookup(exposed)},
        "exists": partial(_exists, exposed),
    }
    yield _resource(
        exposed,
        f"{row}{{?format}}",
        exposed.name,
        phrase("One {}", one),
        partial(_row, exposed),
        [lookup, FORMAT],
        **options,
    )
    if exposed.contents:
        names = Parameter("field", one_of(exposed.contents), EMPTY, None)
        yield _resource(
            exposed,
            f"{row}/{{field}}",
            f"{exposed.name}-field",
            phrase("A text or file of one {}", one),
            partial(_field, exposed),
            [lookup, names],
            mime_type=None,
            **options,
        )
    yield _resource(
        exposed,
        schema_uri(exposed),
        f"{exposed.name}-schema",
        phrase("What {} are made of", many, lower=True),
        partial(_schema, exposed),
        [],
    )


def _resource(
    exposed: Exposed,
    uri: str,
    name: str,
    title: Any,
    call: Callable[[Context, Mapping[str, Any]], Any],
    parameters: list[Parameter],
    mime_type: str | None = "application/json",
    **options: Any,
) -> Resource:
    resource = Resource(
        function(call, name.replace("-", "_"), exposed.description, parameters, exposed.resource),
        uri,
        context_type=Context,
        name=name,
        title=title,
        mime_type=mime_type,
        icons=exposed.resource.icons,
        scopes=exposed.resource.scopes,
        visible=Permitted(exposed.resource),
        **options,
    )
    resource.speaks = False
    resource.template.is_lookup = True
    return resource


def _list(exposed: Exposed, ctx: Context, given: Mapping[str, Any]) -> dict[str, Any]:
    """Rows, and the URI of the next ones."""
    viewer, question = Viewer(ctx), [exposed.base]
    sorting = Sorting(exposed.sortings[""], viewer, exposed)
    place = cursors.decode(ctx, question, given["cursor"]) if given.get("cursor") else None
    page = read_page(
        exposed, viewer, viewer.door(exposed), sorting, exposed.list_columns, exposed.resource.max_rows, place
    )
    following = f"{exposed.base}?cursor={cursors.encode(ctx, question, page.place)}" if page.place else None
    return {"rows": page.rows, "next": following}


def _row(exposed: Exposed, ctx: Context, given: Mapping[str, Any]) -> Any:
    """One row in full."""
    row = read_row(exposed, Viewer(ctx), given[exposed.lookup_name])
    if row is None:
        raise Http404
    if given["format"] == "markdown":
        return ResourceContents(to_markdown(exposed, row), mime_type="text/markdown")
    return row


def _exists(exposed: Exposed, ctx: Context, given: Sequence[Mapping[str, Any]]) -> list[bool]:
    """Which of some rows exist for the caller, in one query."""
    viewer = Viewer(ctx)
    values = [exposed.address(each[exposed.lookup_name]) for each in given]
    name = exposed.lookup.attname
    rows = viewer.door(exposed).filter(**{f"{name}__in": {each for each in values if each is not None}})
    found = {getattr(obj, name) for obj in without_weight(rows, [], exposed) if viewer.sees(exposed, obj)}
    return [value is not None and value in found for value in values]


def _field(exposed: Exposed, ctx: Context, given: Mapping[str, Any]) -> ResourceContents:
    """One long field of a row."""
    viewer, content = Viewer(ctx), exposed.contents[given["field"]]
    for obj in find_row(exposed, viewer, given[exposed.lookup_name])[:1]:
        if viewer.sees(exposed, obj):
            return _contents(content, getattr(obj, content.field.attname))
    raise Http404


def _contents(content: Content, value: Any) -> ResourceContents:
    if value is None or (not isinstance(value, str | bytes | memoryview) and not value):
        raise Http404
    if isinstance(value, str):
        return ResourceContents(value, mime_type=content.mime_type)
    if isinstance(value, bytes | memoryview):
        return ResourceContents(bytes(value), mime_type=content.mime_type)
    mime_type = media_type(value.name)
    return ResourceContents(read_file(value, mime_type), mime_type=mime_type)


def _schema(exposed: Exposed, ctx: Context, given: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG001
    """What the model is made of, as far as the caller may know."""
    return describe(exposed, Viewer(ctx))
