"""``BoundResource``: a ``ModelResource`` at one endpoint, with its fields, orderings, aggregates and access rules."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast
from urllib.parse import quote

from django.db import models
from django.db.models import Avg, Max, Min, Sum
from django.db.models.functions import ExtractDay, ExtractMonth, ExtractYear
from django.utils.functional import Promise
from django.utils.text import capfirst, slugify

from django_mcp.core.context import Context
from django_mcp.core.server import MCPServer
from django_mcp.model_resources.filters import Filter, MethodFilter, SearchField
from django_mcp.model_resources.options import ModelResource, is_plain
from django_mcp.model_resources.paths import Annotation, Path, field_noun, lookup_value, read_path
from django_mcp.model_resources.schema import json_type, value_field
from django_mcp.primitives.base import ToolError, untranslated
from django_mcp.primitives.compatibility import MAX_EXACT_INTEGER
from django_mcp.primitives.field_schema import nullable
from django_mcp.primitives.function import read_docstring

TITLE_CHARACTERS = 120
FUNCTIONS = {"min": Min, "max": Max, "sum": Sum, "avg": Avg}
PARTS = {"year": ExtractYear, "month": ExtractMonth, "day": ExtractDay}
LINK_SCHEMA = {
    "type": "object",
    "properties": {"uri": {"type": "string"}, "title": {"type": "string"}},
    "required": ["uri", "title"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class OutputField:
    """A field of a row as shown to callers. *path* is None if a function returns the value."""

    name: str
    schema: dict[str, Any]
    path: Any = None

    def value(self, obj: Any, context: Any) -> Any:
        """Return the JSON value for *obj*. *context* is a ``SerializerContext``."""
        raise NotImplementedError


class OrderingKey(NamedTuple):
    """A key of an ordering."""

    path: Path
    is_descending: bool = False


class Measure(NamedTuple):
    """An aggregate that callers may compute. *function* is one of ``FUNCTIONS``."""

    function: str
    path: Path

    @property
    def schema(self) -> dict[str, Any]:
        # The aggregate of a group without values is null.
        return nullable(json_type(self.path.field)) if self.has_column_values else {"type": ["number", "null"]}

    @property
    def has_column_values(self) -> bool:
        return not (self.function == "avg" and isinstance(value_field(self.path.field), models.IntegerField))


class Dimension(NamedTuple):
    """A value that rows may be grouped by.

    Attributes:
        part: one of ``PARTS`` for part of a date, otherwise None.
        target: for a relation, the bound resource of its model; groups are shown as links.
    """

    path: Path
    part: str | None = None
    target: "BoundResource | None" = None

    @property
    def schema(self) -> dict[str, Any]:
        if self.target is not None:
            return nullable(LINK_SCHEMA)
        return nullable(json_type(self.path.field) if self.has_column_values else {"type": "integer"})

    @property
    def has_column_values(self) -> bool:
        return self.part is None


class Content(NamedTuple):
    """A text, file or binary field with a resource of its own.

    Attributes:
        mime_type: the media type; "" for that of each file, guessed from its name.
    """

    field: Any
    mime_type: str


def _identifier(words: Any) -> str:
    # Untranslated, since policies, approvals and logs refer to tools by name.
    words = untranslated(words)
    return slugify(words).replace("-", "_") if words.isascii() else ""


class BoundResource:
    """A ``ModelResource`` at an endpoint. ``compile_declaration`` fills it in once all models are registered.

    Attributes:
        is_taken: True if it is registered at the endpoint that this one selects from.
        name, plural: the words in names of tools.
        singular, titles: the singular and plural for display; may be lazy translations.
        base: URI of the resource that lists rows.
        add_titles: ``queryset.add_titles``, which needs this module.
        title_field: name of the field whose value is the title: the declared one or the first short text, if any.
        title_output_field: the field whose value is the title, if it is not a column of the model.
        output_fields, list_output_fields: the fields of a single row and of each row in a list.
        contents: fields with resources of their own.
        orderings: those that callers may choose; ``""`` is the default.
        problems: errors of the declaration; None before it was checked.
        measures, dimensions: aggregates and the values to group them by.
    """

    def __init__(self, resource: ModelResource, *, is_taken: bool = False) -> None:
        self.resource = resource
        self.is_taken = is_taken
        self.model = resource.model
        self.server = resource.server
        self.options = resource.options
        self.name = resource.name or _identifier(self.options.verbose_name) or str(self.options.model_name)
        self.plural = resource.plural or _identifier(self.options.verbose_name_plural) or f"{self.name}s"
        # A title of the declaration's own says that the words of the model are not wanted, translated or not.
        is_named = bool(resource.title) and not isinstance(resource.title, Promise)
        self.singular: Any = _display(resource.name, self.options.verbose_name, is_named=is_named)
        self.titles: Any = resource.title or capfirst(_display(resource.plural, self.options.verbose_name_plural))
        scheme = self.options.app_label.replace("_", "-")
        self.base = (resource.uri or f"{scheme}://{self.options.model_name}").rstrip("/")
        self.problems: list[Any] | None = None
        self._rules: dict[Any, TableRules] = {}
        self._relatives: tuple[Relative, ...] | None = None
        self.annotations: Mapping[str, Annotation] = {}
        self.title_field: str | None = None
        self.title_output_field: OutputField | None = None
        self.add_titles: Callable[[Any, Any, Any], Any] | None = None
        self.output_fields: tuple[OutputField, ...] = ()
        self.list_output_fields: tuple[OutputField, ...] = ()
        self.contents: Mapping[str, Content] = {}
        self.search_fields: Sequence[SearchField] = ()
        self.filters: Sequence[Filter | MethodFilter] = ()
        self.orderings: Mapping[str, Sequence[OrderingKey]] = {}
        self.measures: Mapping[str, Measure] = {}
        self.dimensions: Mapping[str, Dimension] = {}

    def __repr__(self) -> str:
        return f"<BoundResource {self.options.label} on {self.server.name!r}>"

    @property
    def title(self) -> str:
        return str(self.titles)

    @property
    def one(self) -> str:
        return str(self.singular)

    @property
    def is_sound(self) -> bool:
        # None before the declaration is checked.
        return self.problems == []

    @property
    def is_in_connector(self) -> bool:
        named = self.server.connector
        return self.resource.connector if named is None else self.model in named

    @property
    def has_tools(self) -> bool:
        return not self.is_taken or self.server.selection.takes_model(self.resource.tags)

    def on_server(self, model: Any) -> "BoundResource | None":
        return self.server.model_resources.get(model)

    def rules_of(self, model: Any) -> "TableRules":
        if model not in self._rules:
            self._rules[model] = rules_at(self.server, model)
        return self._rules[model]

    def guards_key(self, relation: Any) -> bool:
        if not relation.is_relation or getattr(relation.remote_field, "parent_link", False):
            return False
        # Rules hold for the rows of its table, so the key is hidden with its row.
        return self.rules_of(relation.related_model).exist

    @property
    def relatives(self) -> "tuple[Relative, ...]":
        """Registered parents, children and proxied classes that hide rows, which this declaration leaves out as well.

        A declaration that overrides ``get_queryset`` or ``has_view_permission`` decides for itself instead.
        """
        if self._relatives is None:
            known = _registered_at(self.server)
            self._relatives = tuple(_relatives(known, self.model, is_whole=False))
        return self._relatives

    def forget_rules(self) -> None:
        self._rules, self._relatives = {}, None

    def declared_rows(self, ctx: Context) -> models.QuerySet[Any]:
        return without_duplicates(self.resource.get_queryset(ctx))

    @property
    def checks_each_row(self) -> bool:
        if self.resource.checks_each_row:
            return True
        return any(relative.checks_each_row for relative in self.relatives)

    @property
    def has_plain_rows(self) -> bool:
        """True if every caller who may view the model may view all of its rows."""
        return self.resource.has_plain_rows and not self.relatives

    def path(self, source: str) -> Path:
        if (annotation := self.annotations.get(source)) is not None:
            return Path(source, (), annotation.field, is_many=False)
        return read_path(self.model, source)

    @property
    def lookup(self) -> Any:
        if self.resource.lookup_field == "pk":
            return self.options.pk
        return self.options.get_field(self.resource.lookup_field)

    @property
    def lookup_name(self) -> str:
        return self.resource.lookup_field

    @property
    def lookup_description(self) -> str:
        # Tools are not named, since policies may hide them.
        return f"{capfirst(field_noun(self.lookup))} of the {self.one}, as in search results and URIs."

    @property
    def description(self) -> str:
        if self.resource.description:
            return inspect.cleandoc(self.resource.description)
        return read_docstring(inspect.cleandoc(type(self.resource).__doc__ or ""))[0] or f"{self.title}."

    # Rows

    def missing(self, value: object) -> ToolError:
        words = f"No {self.one} with {self.lookup_name} {str(value)[:80]!r} found."
        if isinstance(value, int) and abs(value) > MAX_EXACT_INTEGER:
            words += " Some clients round numbers of over 15 digits: send it as text."
        return ToolError(words)

    def uri_of(self, obj: Any) -> str:
        return f"{self.base}/{quote(str(getattr(obj, self.lookup.attname)), safe='')}"

    def lookup_value(self, value: str) -> Any:
        return lookup_value(self.lookup, value)


def _display(name: str | None, verbose: Any, *, is_named: bool = False) -> Any:
    return name.replace("_", " ") if name and (is_named or not isinstance(verbose, Promise)) else verbose


def without_duplicates(rows: models.QuerySet[Any]) -> models.QuerySet[Any]:
    """Return *rows* without duplicates, as a queryset that can be filtered and ordered further.

    A site's ``get_queryset`` may contain duplicates (``filter(members__in=…)``), be sliced or combine querysets.
    """
    query = rows.query
    if query.is_sliced or query.combinator or query.distinct_fields:
        every: models.QuerySet[Any] = rows.model._base_manager.using(rows.db)  # noqa: SLF001 - documented API
        return every.filter(pk__in=rows.values("pk"))
    return rows if query.distinct or query.group_by is not None or not _joins_sets(query) else rows.distinct()


def _joins_sets(query: Any) -> bool:
    fields = [
        getattr(join, "join_field", None) for alias, join in query.alias_map.items() if query.alias_refcount[alias]
    ]
    return any(field is not None and (field.one_to_many or field.many_to_many) for field in fields)


class Relative(NamedTuple):
    """Registered models with rows that are also rows of another model: its parents, proxies and multi-table children.

    Attributes:
        bounds: bound resources of one table. A row is visible if any of them shows it.
        path: the path between the two rows: from the other model's row to that of *bounds* or, if *is_below*, back.
        is_below: True for multi-table children. Only some rows of the model have a row there.
        is_whole: True if the caller also needs the permission to view the model of one of *bounds*; False if only the
            rows that they hide count.
    """

    bounds: tuple[BoundResource, ...]
    path: str
    is_below: bool
    is_whole: bool

    @property
    def checks_each_row(self) -> bool:
        return any(bound.checks_each_row if self.is_whole else bound.resource.checks_each_row for bound in self.bounds)

    @property
    def has_plain_rows(self) -> bool:
        return any(bound.has_plain_rows if self.is_whole else bound.resource.has_plain_rows for bound in self.bounds)


class TableRules(NamedTuple):
    """The access rules of a model's rows at an endpoint.

    They follow the tables: without a registered class of its own, a model has the rules of its registered parents,
    proxies and multi-table children.

    Attributes:
        own: the bound resource of the model itself, or None.
        relatives: those whose rules hold if *own* is None.
    """

    model: Any
    own: BoundResource | None
    relatives: tuple[Relative, ...] = ()

    @property
    def exist(self) -> bool:
        # A registered class decides which rows a caller may see.
        return self.own is not None or bool(self.relatives)

    @property
    def checks_each_row(self) -> bool:
        if self.own is not None:
            return self.own.checks_each_row
        return any(relative.checks_each_row for relative in self.relatives)

    @property
    def has_plain_rows(self) -> bool:
        if self.own is not None:
            return self.own.has_plain_rows
        is_all = is_plain(self.model._default_manager)  # noqa: SLF001 - Django's documented API
        return is_all and all(relative.has_plain_rows for relative in self.relatives)

    @property
    def resources(self) -> list[ModelResource]:
        if self.own is not None:
            return [self.own.resource]
        return [bound.resource for relative in self.relatives for bound in relative.bounds]

    @property
    def declarations(self) -> list[tuple[BoundResource, ...]]:
        """The bound resources of each table that also hold for an instance of the model, so not those of children."""
        if self.own is not None:
            return [(self.own,)]
        return [relative.bounds for relative in self.relatives if not relative.is_below]

    def key_as(self, bound: BoundResource, row: Any) -> Any:
        """Return the primary key that *row* has in the table of *bound*, one of ``declarations``."""
        path = next((relative.path for relative in self.relatives if bound in relative.bounds), "pk")
        return row.pk if path == "pk" else getattr(row, row._meta.get_field(path).attname)  # noqa: SLF001


def rules_at(server: MCPServer | None, model: Any) -> TableRules:
    """Return the access rules of a model: those at *server*, or else at the endpoint that *server* selects from."""
    known = _registered_at(server)
    own = known.get(model)
    return TableRules(model, own, () if own is not None else tuple(_relatives(known, model, is_whole=True)))


def _registered_at(server: MCPServer | None) -> dict[Any, BoundResource]:
    known: dict[Any, BoundResource] = {}
    while server is not None:
        known = {**cast("dict[Any, BoundResource]", server.model_resources), **known}
        server = server.source
    return known


def _relatives(known: Mapping[Any, BoundResource], model: Any, *, is_whole: bool) -> Iterator[Relative]:
    """Yield the nearest registered relatives of *model*, apart from itself.

    Args:
        is_whole: False for a registered *model*, which has permissions of its own: only relatives that hide rows count.
    """
    own = _table(model)
    if own is None:
        return
    nearest: list[Any] = []
    # Parent classes of a table stand behind it, and nearer ones before others.
    for table, path in {own: "pk", **parent_links(own)}.items():
        if any(issubclass(nearer, table) for nearer in nearest):
            continue
        if bounds := _deciding(known, model, table, is_whole=is_whole):
            nearest.append(table)
            yield Relative(bounds, path, is_below=False, is_whole=is_whole)
    if own not in nearest:
        yield from _children(known, own, is_whole=is_whole)


def _deciding(
    known: Mapping[Any, BoundResource], model: Any, table: Any, *, is_whole: bool
) -> tuple[BoundResource, ...]:
    """Return the bound resources that decide on the part of a row of *model* that is in *table*."""
    there = [bound for kind, bound in known.items() if kind is not model and _table(kind) is table]
    bases = [bound for kind in model.__mro__ for bound in there if bound.model is kind]
    if bases:  # a class decides for its proxies and children
        return tuple(bound for bound in bases if is_whole or not bound.resource.has_plain_rows)[:1]
    if not is_whole and (table is _table(model) or any(bound.resource.has_plain_rows for bound in there)):
        return ()
    return tuple(there)  # proxies, of which any may show a row


def _children(known: Mapping[Any, BoundResource], own: Any, *, is_whole: bool) -> Iterator[Relative]:
    below: dict[Any, list[BoundResource]] = {}
    for kind, bound in known.items():
        if _table(kind) is not own and issubclass(kind, own) and (is_whole or not bound.resource.has_plain_rows):
            below.setdefault(_table(kind), []).append(bound)
    for table, bounds in below.items():
        if not any(nearer is not table and issubclass(table, nearer) for nearer in below):
            yield Relative(tuple(bounds), parent_links(table)[own], is_below=True, is_whole=is_whole)


def parent_links(table: Any) -> dict[Any, str]:
    """Return the link to each parent table, nearer ones first. Links of parents are inherited fields."""
    links: dict[Any, str] = {}
    for parent, link in table._meta.parents.items():  # noqa: SLF001 - Django's documented API
        if link is not None:
            links = {_table(parent): link.name, **parent_links(_table(parent)), **links}
    return {parent: links[parent] for parent in table.__mro__ if parent in links}


def _table(model: Any) -> Any:
    # None if the model is abstract.
    return model._meta.concrete_model  # noqa: SLF001 - Django's documented API
