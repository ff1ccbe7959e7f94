"""MCP resources of rows and models: templates, listing, completion, model descriptions."""

import datetime
import logging
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Annotated, Any, Literal

from django.db import connections, models
from django.db.models import Q, QuerySet
from django.http import Http404
from django.utils import timezone
from django.utils.text import capfirst
from pydantic import Field

from django_mcp.core.context import Context
from django_mcp.core.permissions import covers
from django_mcp.core.server import MCPServer
from django_mcp.core.signatures import function, one_of
from django_mcp.model_resources import pagination
from django_mcp.model_resources.access import RowAccess, find_row
from django_mcp.model_resources.bound_resource import BoundResource, Content, OrderingKey, OutputField
from django_mcp.model_resources.compile import declared_names
from django_mcp.model_resources.options import Permitted
from django_mcp.model_resources.pagination import (
    MAX_LOOKED_AT,
    FetchedRows,
    Sorting,
    fetch_objects,
    read_page,
    show_row,
    with_output_fields,
)
from django_mcp.model_resources.paths import read_path
from django_mcp.model_resources.queryset import add_titles, defer_long_columns
from django_mcp.model_resources.schema import choices_of, column_value, to_json_value, value_field
from django_mcp.model_resources.serializers import RelatedListField, media_type, read_file, title_of, to_markdown
from django_mcp.primitives.base import phrase
from django_mcp.primitives.completions import MAX_VALUES
from django_mcp.primitives.field_schema import plain_text
from django_mcp.primitives.function import EMPTY, Parameter
from django_mcp.primitives.resource import Resource
from django_mcp.protocol.content import ResourceContents
from django_mcp.protocol.errors import InvalidParams, ProtocolError

logger = logging.getLogger("django_mcp")


def complete_lookup(bound: BoundResource) -> Callable[..., Iterable[str]]:
    def complete(value: str, ctx: Context) -> Iterable[str]:
        # A generator does not report the total number of values, which would have to be counted.
        access = RowAccess(ctx)
        rows = access.get_queryset(bound).order_by(bound.lookup.attname)
        for beginning in _beginnings(bound.lookup, value, connections[rows.db].vendor):
            found = _values(bound, access, rows.filter(beginning))
            if found:
                yield from found
                return

    return complete


def _values(bound: BoundResource, access: RowAccess, rows: QuerySet[Any]) -> list[str]:
    name = bound.lookup.attname
    if not bound.checks_each_row:
        return list(map(str, rows.values_list(name, flat=True)[: MAX_VALUES + 1]))
    seen = (obj for obj in rows[:MAX_LOOKED_AT] if access.can_view(bound, obj))
    return [str(getattr(obj, name)) for obj in islice(seen, MAX_VALUES + 1)]


def _beginnings(field: Any, text: str, vendor: str) -> Iterator[Q]:
    """Yield conditions to begin with *text* that an index can serve, the likeliest first."""
    if isinstance(value_field(field), models.IntegerField):
        return  # completing numbers is of no use
    if not text:
        yield Q()
    elif "\0" in text or len(text) > 200:  # noqa: PLR2004
        return
    elif isinstance(value_field(field), models.UUIDField):
        yield from filter(None, [_uuid(field.attname, text)])
    else:
        # An index does not serve case-insensitive conditions, so other cases are tried if the typed one finds nothing.
        for typed in dict.fromkeys([text, text.lower(), text.upper(), text.capitalize()]):
            yield _text(field, typed, vendor)


def _text(field: Any, text: str, vendor: str) -> Q:
    name = field.attname
    if vendor == "sqlite" and isinstance(value_field(field), models.CharField | models.TextField):
        # SQLite's LIKE ignores case, so that no index can serve it.
        return Q(**{f"{name}__gte": text, f"{name}__lt": f"{text}\U0010ffff"})
    # On PostgreSQL the ``_like`` index that Django adds for an indexed text column serves this.
    return Q(**{f"{name}__startswith": text})


def _uuid(name: str, text: str) -> Q | None:
    digits = text.replace("-", "").lower()
    if len(digits) > 32 or not set(digits) <= set("0123456789abcdef"):  # noqa: PLR2004
        return None
    return Q(**{f"{name}__range": (uuid.UUID(digits.ljust(32, "0")), uuid.UUID(digits.ljust(32, "f")))})


def schema_uri(bound: BoundResource) -> str:
    return f"schema://{bound.options.app_label.replace('_', '-')}/{bound.options.model_name}"


def describe(bound: BoundResource, access: RowAccess) -> dict[str, Any]:
    """Describe a model. Relations to models that the caller may not view are left out."""
    resource = bound.resource
    described: dict[str, Any] = {
        "model": bound.options.label,
        "title": bound.title,
        "description": bound.description,
        "list": bound.base,
        "row": f"{bound.base}/{{{bound.lookup_name}}}",
        "lookup": bound.lookup_name,
        "fields": [_column(bound, column, access) for column in bound.output_fields],
        "searched": list(dict.fromkeys(field.path.source for field in bound.search_fields)),
        "filters": [{"name": filter_.argument, "schema": filter_.schema} for filter_ in bound.filters],
        "ordering_fields": [way for way in bound.orderings if way],
        "aggregates": ["count", *bound.measures] if resource.aggregates is not None else [],
        "group_by_fields": list(bound.dimensions),
        "actions": _actions(bound, access.ctx),
    }
    return described


def _actions(bound: BoundResource, ctx: Context) -> list[str]:
    resource = bound.resource
    if not covers(ctx.principal.scopes, frozenset(resource.write_scopes)):
        return []
    return [action for action in resource.actions if resource.allows(ctx, action)]


def _column(bound: BoundResource, column: OutputField, access: RowAccess) -> dict[str, Any]:
    described: dict[str, Any] = {"name": column.name, "schema": column.schema}
    if column.path is None:
        return described
    end = column.path.field
    if title := str(getattr(end, "verbose_name", "") or ""):
        described["title"] = title
    if help_text := str(getattr(end, "help_text", "") or ""):
        described["help_text"] = plain_text(help_text)
    if choices := choices_of(end):
        described["choices"] = [{"value": value, "label": label} for value, label in choices]
    target = bound.on_server(end.related_model) if end.is_relation else None
    if target is not None and access.can_view_model(target):
        described["relation"] = {
            "model": target.options.label,
            "schema": schema_uri(target),
            "many": isinstance(column, RelatedListField),
        }
    if bound.resource.actions and column.name in declared_names(bound):
        described["writable"] = True
    return described


QUESTION = "resources/list"


def listed_models(server: MCPServer) -> list[BoundResource]:
    return [bound for bound in server.model_resources.values() if bound.is_sound and bound.resource.max_list_size != 0]


def list_rows(ctx: Context, cursor: str | None, room: int) -> tuple[list[dict[str, Any]], str | None]:
    """Return at most *room* resources and the cursor of the next ones, or None.

    Raises:
        InvalidParams: the cursor is invalid.
    """
    access = RowAccess(ctx)
    models = listed_models(ctx.server)
    label, place, before = _decode(ctx, cursor)
    at = _position(models, label)
    entries: list[dict[str, Any]] = []
    for bound in models[at:]:
        if _may_view(bound, access):
            if len(entries) == room:
                return entries, _encode(ctx, bound, None, 0)
            # The cursor remains valid if its caller may no longer view its model; listing continues with the next one.
            shown, following = _entries(bound, access, place, room - len(entries), before)
            entries += shown
            if following is not None:
                return entries, _encode(ctx, bound, following, before + len(shown))
        place, before = None, 0
    return entries, None


def _may_view(bound: BoundResource, access: RowAccess) -> bool:
    try:
        return access.can_view_model(bound)
    except Exception:
        logger.exception("Rows of %s are left out of resources/list: has_view_permission failed", bound.options.label)
        return False


def _entries(
    bound: BoundResource, access: RowAccess, place: Any, room: int, before: int
) -> tuple[list[dict[str, Any]], Any]:
    """Return the entries of one model and the position of the next ones, or nothing if reading fails."""
    try:
        found = _rows(bound, access, place, room, before)
        return [entry(bound, obj, access) for obj in found.objects], found.place
    except ProtocolError:  # the client's cursor is wrong
        raise
    except Exception:
        logger.exception("Rows of %s are left out of resources/list: reading them failed", bound.options.label)
        return [], None


def _encode(ctx: Context, bound: BoundResource, place: Any, before: int) -> str:
    return pagination.encode_cursor(ctx, QUESTION, [bound.options.label, place, before])


def _position(models: list[BoundResource], label: str | None) -> int:
    labels = [model.options.label for model in models]
    if label is None:
        return 0
    if label not in labels:  # no longer listed by the site
        raise pagination.invalid_cursor()
    return labels.index(label)


def _decode(ctx: Context, cursor: str | None) -> tuple[str | None, Any, int]:
    if cursor is None:
        return None, None, 0
    if not isinstance(cursor, str):
        raise InvalidParams('"params.cursor" must be a string.')
    label, place, before = pagination.decode_cursor(ctx, QUESTION, cursor)
    return label, place, before


def _rows(bound: BoundResource, access: RowAccess, place: Any, room: int, before: int) -> FetchedRows:
    most = bound.resource.max_list_size
    limit = room if most is None else min(room, most - before)
    if limit <= 0:
        return FetchedRows([], None)
    sorting = Sorting([OrderingKey(read_path(bound.model, "pk"))], access, bound)
    rows = add_titles(with_output_fields(bound, access, access.get_queryset(bound), []), bound, access)
    found = fetch_objects(bound, access, rows, sorting, limit, place)
    is_enough = most is not None and before + len(found.objects) >= most
    return FetchedRows(found.objects, None if is_enough else found.place)


def entry(bound: BoundResource, obj: Any, access: RowAccess) -> dict[str, Any]:
    """Return a row as an entry of ``resources/list`` (2026-07-28, Resources, Resource)."""
    name = f"{bound.name}-{getattr(obj, bound.lookup.attname)}"
    made: dict[str, Any] = {"uri": bound.uri_of(obj), "name": name, "title": title_of(bound, obj, access)}
    made["mimeType"] = "application/json"
    # Without the icons, which are those of the template: each of hundreds of entries would repeat them.
    modified = getattr(obj, bound.resource.modified_field) if bound.resource.modified_field else None
    if modified is not None:
        made["annotations"] = {"lastModified": _moment(modified)}
    return made


def _moment(value: datetime.date) -> str:
    # A date becomes its midnight.
    moment = value if isinstance(value, datetime.datetime) else datetime.datetime.combine(value, datetime.time())
    return str(to_json_value(timezone.make_aware(moment) if timezone.is_naive(moment) else moment))


FORMAT = Parameter("format", Literal["json", "markdown"], "json", None)


def resources(bound: BoundResource) -> Iterator[Resource]:
    one, many = bound.singular, bound.titles
    later = Parameter("cursor", Annotated[str, Field(max_length=4096)], "", None)
    yield _resource(bound, bound.base, bound.plural, many, partial(_list, bound), [])
    yield _resource(
        bound,
        f"{bound.base}{{?cursor}}",
        f"{bound.plural}-page",
        phrase("{}, next page", many),
        partial(_list, bound),
        [later],
    )
    lookup = Parameter(bound.lookup_name, str, EMPTY, None)
    row = f"{bound.base}/{{{bound.lookup_name}}}"
    options: dict[str, Any] = {
        "completions": {bound.lookup_name: complete_lookup(bound)},
        "exists": partial(_exists, bound),
    }
    yield _resource(
        bound,
        f"{row}{{?format}}",
        bound.name,
        capfirst(one),
        partial(_row, bound),
        [lookup, FORMAT],
        **options,
    )
    if bound.contents:
        names = Parameter("field", one_of(bound.contents), EMPTY, None)
        yield _resource(
            bound,
            f"{row}/{{field}}",
            f"{bound.name}-field",
            phrase("Text or file of one {}", one),
            partial(_field, bound),
            [lookup, names],
            mime_type=None,
            **options,
        )
    yield _resource(
        bound,
        schema_uri(bound),
        f"{bound.name}-schema",
        phrase("Schema of {}", many, lower=True),
        partial(_schema, bound),
        [],
    )


def _resource(
    bound: BoundResource,
    uri: str,
    name: str,
    title: Any,
    call: Callable[[Context, Mapping[str, Any]], Any],
    parameters: list[Parameter],
    mime_type: str | None = "application/json",
    **options: Any,
) -> Resource:
    resource = Resource(
        function(call, name.replace("-", "_"), parameters, bound.resource),
        uri,
        context_type=Context,
        name=name,
        title=title,
        description=bound.description,
        mime_type=mime_type,
        icons=bound.resource.icons,
        scopes=bound.resource.scopes,
        visible=Permitted(bound.resource),
        unchecked=[parameter.name for parameter in parameters],  # only compared with columns and names
        **options,
    )
    resource.is_interactive = False
    return resource


def _list(bound: BoundResource, ctx: Context, given: Mapping[str, Any]) -> dict[str, Any]:
    access, question = RowAccess(ctx), [bound.base]
    sorting = Sorting(bound.orderings[""], access, bound)
    place = pagination.decode_cursor(ctx, question, given["cursor"]) if given.get("cursor") else None
    page = read_page(
        bound,
        access,
        access.get_queryset(bound),
        sorting,
        bound.list_output_fields,
        bound.resource.max_page_size,
        place,
    )
    following = f"{bound.base}?cursor={pagination.encode_cursor(ctx, question, page.place)}" if page.place else None
    return {"rows": page.rows, "next": following}


def _row(bound: BoundResource, ctx: Context, given: Mapping[str, Any]) -> Any:
    access = RowAccess(ctx)
    row = show_row(bound, access, find_row(bound, access, given[bound.lookup_name]))
    if row is None:
        raise Http404
    if given["format"] == "markdown":
        return ResourceContents(to_markdown(bound, row), mime_type="text/markdown")
    return row


def _exists(bound: BoundResource, ctx: Context, given: Sequence[Mapping[str, Any]]) -> list[bool]:
    """Return for each of *given* whether its row is visible, with one query."""
    access = RowAccess(ctx)
    values = [bound.lookup_value(row[bound.lookup_name]) for row in given]
    name = bound.lookup.attname
    rows = access.get_queryset(bound).filter(**{f"{name}__in": {address for address in values if address is not None}})
    found = {getattr(obj, name) for obj in defer_long_columns(rows, [], bound) if access.can_view(bound, obj)}
    return [value is not None and value in found for value in values]


def _field(bound: BoundResource, ctx: Context, given: Mapping[str, Any]) -> ResourceContents:
    access, content = RowAccess(ctx), bound.contents[given["field"]]
    for obj in find_row(bound, access, given[bound.lookup_name])[:1]:
        if access.can_view(bound, obj):
            value = getattr(obj, content.field.attname)
            is_text = isinstance(value_field(content.field), models.TextField)
            return _contents(content, column_value(content.field, value) if is_text else value)
    raise Http404


def _contents(content: Content, value: Any) -> ResourceContents:
    if value is None or (not isinstance(value, str | bytes | memoryview) and not value):
        raise Http404
    if isinstance(value, str):
        return ResourceContents(value, mime_type=content.mime_type)
    if isinstance(value, bytes | memoryview):
        return ResourceContents(bytes(value), mime_type=content.mime_type)
    mime_type = content.mime_type or media_type(value.name)
    return ResourceContents(read_file(value, mime_type), mime_type=mime_type)


def _schema(bound: BoundResource, ctx: Context, given: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG001
    return describe(bound, RowAccess(ctx))
