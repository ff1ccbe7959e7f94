"""Compilation of a ``ModelResource`` into a ``BoundResource``, and checks of its writable fields."""

import inspect
import typing
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from copy import copy
from typing import Any

from django import forms
from django.core.exceptions import FieldError
from django.db import models
from django.db.models import F, Value
from django.db.models.constants import LOOKUP_SEP
from django.db.models.expressions import OrderBy
from django.db.models.fields import related_descriptors
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from pydantic import PydanticUserError, TypeAdapter

from django_mcp.model_resources.bound_resource import (
    FUNCTIONS,
    PARTS,
    BoundResource,
    Content,
    Dimension,
    Measure,
    OrderingKey,
    OutputField,
)
from django_mcp.model_resources.filters import (
    DATE_LOOKUPS,
    EQUALITY_LOOKUPS,
    FILTER_LOOKUPS,
    RANGE_LOOKUPS,
    SEARCH_LOOKUPS,
    TEXT_LOOKUPS,
    Filter,
    MethodFilter,
    SearchField,
)
from django_mcp.model_resources.paths import Annotation, Path, PathError, example_path, is_composite, read_path
from django_mcp.model_resources.queryset import add_titles
from django_mcp.model_resources.schema import (
    AnyDecimalField,
    innermost,
    is_array,
    is_json,
    is_range,
    value_field,
)
from django_mcp.model_resources.serializers import ANY_TYPE, RelatedListField, ValueField, function_field, output_field
from django_mcp.primitives.field_schema import custom_type
from django_mcp.primitives.function import is_rows, leaves, own_docstring, read_docstring
from django_mcp.primitives.schema import json_schema

_OWN_PACKAGE = __name__.partition(".")[0]
ADD_IT = gettext_lazy("Correct the name, or add it to fields.")
REMOVE_IT = gettext_lazy("Remove it.")
FILTER_METHOD = "filter_"
"""Prefix of the methods that are filters."""
FILTER_PARAMETERS = ("ctx", "queryset", "value")
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def compile_declaration(bound: BoundResource) -> None:
    """Fill in *bound* from its declaration.

    Raises:
        PathError: the declaration names something that does not exist or cannot be used.
    """
    resource = bound.resource
    bound.annotations = {
        name: _annotation(bound, name, annotation) for name, annotation in resource.annotations.items()
    }
    bound.contents = _contents(bound)
    columns = [_column(bound, field) for field in resource.fields]
    by_name = {column.name: column for column in columns if column.name != bound.lookup_name}
    bound.output_fields = tuple(by_name.values())
    listed = resource.list_fields
    if listed is None:
        bound.list_output_fields = tuple(
            column for column in bound.output_fields if not isinstance(column, RelatedListField)
        )
    else:
        bound.list_output_fields = tuple(by_name[name] for name in _declared(listed, by_name, bound.lookup_name))
    bound.title_field = resource.title_field or _first_text(bound)
    title = by_name.get(bound.title_field or "")
    is_own = title is None or (title.path is not None and not title.path.hops and title.name not in bound.annotations)
    bound.title_output_field, bound.add_titles = None if is_own else title, add_titles
    bound.search_fields = [_search_field(bound, search_field) for search_field in resource.search_fields]
    bound.filters = [
        _filter(bound, path, lookup)
        if (method := _method(bound, FILTER_METHOD + path)) is None
        else _method_filter(bound, path, lookup, method)
        for path, lookup in _pairs(bound, resource.filterset_fields)
    ]
    bound.orderings = _orderings(bound)
    bound.measures = dict(_measures(bound))
    bound.dimensions = {path: _dimension(bound, path) for path in resource.group_by_fields}


def _first_text(bound: BoundResource) -> str | None:
    # The title of a row, unless another field is declared.
    for column in bound.output_fields:
        field = None if column.path is None or column.path.hops else column.path.field
        is_text = isinstance(field, models.CharField) and not field.choices
        if is_text and column.name not in bound.annotations:
            return column.name
    return None


def _annotation(bound: BoundResource, name: str, declared: Any) -> Annotation:
    if LOOKUP_SEP in name or hasattr(bound.model, name):
        raise PathError(
            gettext_lazy("annotations: %(name)r contains '__', or is already an attribute of %(model)s"),
            gettext_lazy("Choose another name."),
            name=name,
            model=bound.options.label,
        )
    is_typed = isinstance(declared, models.Field)
    expression = Value(None, output_field=declared) if is_typed else declared
    try:
        query = bound.model._base_manager.annotate(**{name: expression}).query  # noqa: SLF001 - documented API
        resolved = query.annotations[name]
        output = value_field(resolved.output_field)
    except (FieldError, TypeError, ValueError) as error:
        raise PathError(
            gettext_lazy("annotations: %(name)r cannot be computed: %(error)s"),
            gettext_lazy("Correct the expression."),
            name=name,
            error=str(error),
        ) from None
    is_unfit = output.is_relation or isinstance(output, models.FileField | models.BinaryField)
    if is_unfit or resolved.contains_over_clause:
        raise PathError(
            gettext_lazy("annotations: %(name)r is a %(kind)s, which is not supported"),
            gettext_lazy("Use another expression, or a method."),
            name=name,
            kind=type(output if is_unfit else resolved).__name__,
        )
    joined = [table.join_field for table in query.alias_map.values() if hasattr(table, "join_field")]
    # Parent tables of the row itself are not relations to other rows.
    relations = [relation for relation in joined if relation.related_model not in bound.options.get_parent_list()]
    field = _annotation_field(output, name)
    field.model = bound.model
    # The value is null for callers who may not see the related rows.
    field.null = bool(relations) or resolved.empty_result_set_value in {None, NotImplemented}
    return Annotation(None if is_typed else declared, field, relations)


_WIDE: tuple[tuple[Any, Any], ...] = (
    (models.IntegerField, models.BigIntegerField),
    (models.DecimalField, AnyDecimalField),
    (models.CharField | models.TextField, models.TextField),
)


def _annotation_field(output: Any, name: str) -> Any:
    # Without the limits of the column that it may be.
    wide = None if custom_type(output) else next((wide for kind, wide in _WIDE if isinstance(output, kind)), None)
    field = copy(output) if wide is None else wide(choices=output.choices)
    if isinstance(field, AnyDecimalField):
        field.shown_places = output.decimal_places
    field.name = field.verbose_name = field.db_column = None
    field.primary_key, field._unique, field.help_text = False, False, ""  # noqa: SLF001 - of the column, not its type
    field.set_attributes_from_name(name)
    return field


def _declared(names: Sequence[str], known: dict[str, OutputField], lookup: str) -> Iterator[str]:
    for name in names:
        if name in known:
            yield name
        elif name != lookup:
            raise PathError(gettext_lazy("list_fields: %(name)r is not in fields"), ADD_IT, name=name)


def _contents(bound: BoundResource) -> dict[str, Content]:
    written = bound.resource.content_fields
    found: dict[str, Content] = {}
    for name in bound.resource.fields:
        # If a method replaces the field, its full content is not served.
        field = None if _method(bound, name) else _own_field(bound.model, name)
        if isinstance(value_field(field), models.FileField):
            found[str(name)] = Content(field, written.get(str(name), ""))
        elif isinstance(value_field(field), models.BinaryField):
            found[str(name)] = Content(field, written.get(str(name), ANY_TYPE))
        elif isinstance(value_field(field), models.TextField):
            found[str(name)] = Content(field, written.get(str(name), "text/plain"))
    if unknown := [name for name in written if name not in found]:
        raise PathError(
            gettext_lazy("content_fields: %(name)r is not a text, file or binary field in fields"),
            ADD_IT,
            name=unknown[0],
        )
    return found


def _own_field(model: type[models.Model], name: Any) -> Any:
    fields = {field.name: field for field in model._meta.concrete_fields}  # noqa: SLF001 - Django's documented API
    return fields.get(name) if isinstance(name, str) else None


def _column(bound: BoundResource, declared: str | Callable[..., Any]) -> OutputField:
    if callable(declared):
        return _function(declared.__name__, declared, declared)
    if (own := _method(bound, declared)) is not None:
        return _function(declared, getattr(bound.resource, declared), own)
    try:
        path = bound.path(declared)
    except PathError:
        attribute = inspect.getattr_static(bound.model, declared, None)
        if attribute is None or LOOKUP_SEP in declared or _is_of_database(bound.model, declared, attribute):
            raise
        return _attribute(declared, attribute)
    _require_showable(path)
    relation = path.hops[0] if path.is_many and path.hops else path.field
    target = bound.on_server(relation.related_model) if relation.is_relation else None
    if path.is_many and path.field.is_relation and target is None:
        raise PathError(
            gettext_lazy(
                "%(declared)r is a set of %(model)s, which is not registered at this endpoint; register it, or "
                "use a path such as %(example)r"
            ),
            gettext_lazy("Register the model, or use a path to one of its values."),
            declared=declared,
            example=example_path(declared, path.field.related_model),
            model=path.field.related_model._meta.label,  # noqa: SLF001
        )
    return output_field(declared, path, target)


def _method(bound: BoundResource, name: Any) -> Any:
    # Attributes of ours may be columns of a model.
    kinds: Any = type(bound.resource).__mro__
    own = next((vars(kind)[name] for kind in kinds if isinstance(name, str) and name in vars(kind)), None)
    is_ours = any(name in vars(kind) for kind in kinds if kind.__module__.partition(".")[0] == _OWN_PACKAGE)
    own = getattr(own, "__func__", own) if isinstance(own, staticmethod | classmethod) else own
    return own if callable(own) and not isinstance(own, type) and not is_ours else None


def _is_of_database(model: type[models.Model], name: str, attribute: Any) -> bool:
    # The key column of a relation would reveal rows that the caller may not see.
    fields = {field.name for field in model._meta.get_fields()} | {  # noqa: SLF001 - Django's documented API
        field.attname
        for field in model._meta.concrete_fields  # noqa: SLF001 - likewise
    }
    is_relation = type(attribute).__module__ == related_descriptors.__name__
    return name in fields or is_relation or bool(getattr(attribute, "alters_data", False))


def is_backwards(field: Any) -> bool:
    # The reverse of a ``GenericRelation`` with ``related_query_name``: queries can follow it to a single row, but the
    # attribute of that name is a manager of something else.
    return bool(field.is_relation and field.auto_created and not field.concrete and field.many_to_one)


def _require_showable(path: Path) -> None:
    if any(is_backwards(hop) for hop in (*path.hops, path.field)):
        raise PathError(
            gettext_lazy("%(source)r follows a generic relation backwards, which cannot be shown"),
            gettext_lazy("Use a method. Filters can follow it: add it to filter_only_fields."),
            source=path.source,
        )
    if path.hops and isinstance(path.value_field, models.FileField | models.BinaryField):
        raise PathError(
            gettext_lazy("%(source)r: a file of a related row cannot be shown; show the relation instead"),
            gettext_lazy("Show the relation."),
            source=path.source,
        )
    if path.is_many and path.hops and path.field.is_relation:
        raise PathError(
            gettext_lazy("%(source)r ends in a relation after a set of rows; use a value, such as '%(source)s__pk'"),
            gettext_lazy("Use a value of the row."),
            source=path.source,
        )


def _attribute(name: str, attribute: Any) -> OutputField:
    written = getattr(attribute, "fget", None) or getattr(attribute, "func", None) or attribute

    def call(obj: Any) -> Any:
        value = getattr(obj, name)
        # As templates do: managers and classes of choices are values, though they can be called.
        return value() if callable(value) and not getattr(value, "do_not_call_in_templates", False) else value

    return _function(name, call, written)


def _function(name: str, call: Callable[[Any], Any], written: Any) -> OutputField:
    written = inspect.unwrap(getattr(written, "__func__", written))
    try:
        returns = typing.get_type_hints(written, include_extras=True).get("return") if callable(written) else None
        return function_field(name, call, returns, (own_docstring(written) or None) if callable(written) else None)
    except (NameError, TypeError, PydanticUserError) as error:
        raise PathError(
            gettext_lazy("the return annotation of %(name)r has no JSON Schema: %(error)s"),
            gettext_lazy("Correct the annotation."),
            name=name,
            error=str(error),
        ) from None


def _search_field(bound: BoundResource, declared: str) -> SearchField:
    lookup = SEARCH_LOOKUPS.get(declared[:1], "icontains")
    path = bound.path(declared[1:] if declared[:1] in SEARCH_LOOKUPS else declared)
    if path.field.is_relation:
        raise PathError(
            gettext_lazy(
                "search_fields: %(declared)r is a relation; use a text of the related row, such as %(example)r"
            ),
            gettext_lazy("Use a text of the related row."),
            declared=declared,
            example=example_path(path.source, path.field.related_model),
        )
    if isinstance(path.value_field, models.FileField | models.BinaryField):
        raise PathError(
            gettext_lazy("search_fields: %(declared)r is a file, which cannot be searched"),
            REMOVE_IT,
            declared=declared,
        )
    is_vector = type(path.value_field).__name__ == "SearchVectorField"
    return SearchField(path, "search" if is_vector else lookup, is_vector=is_vector)


def _split(bound: BoundResource, declared: str, suffixes: Container[str]) -> tuple[str, str]:
    """Return the path that *declared* names, and its suffix, one of *suffixes* or empty.

    As in queries, a column of a related row comes first, also if it has the name of a lookup: ``hours__day``.
    """
    source, _sep, suffix = declared.rpartition(LOOKUP_SEP)
    if not source or suffix not in suffixes:
        return declared, ""
    try:
        bound.path(declared)
    except PathError:
        return source, suffix
    return declared, ""


def _pairs(bound: BoundResource, declared: Sequence[str] | Mapping[str, Sequence[str]]) -> Iterator[tuple[str, str]]:
    if isinstance(declared, Mapping):
        for source, lookups in declared.items():
            if isinstance(lookups, str):
                raise PathError(
                    gettext_lazy("%(source)r: lookups must be a list, like [%(lookups)r]"),
                    gettext_lazy("Write a list."),
                    source=source,
                    lookups=lookups,
                )
            yield from ((source, lookup) for lookup in lookups)
        return
    for entry in declared:
        if _method(bound, FILTER_METHOD + entry) is not None:
            yield entry, "exact"
            continue
        source, lookup = _split(bound, entry, FILTER_LOOKUPS)
        yield source, lookup or "exact"


def _method_filter(bound: BoundResource, name: str, lookup: str, written: Any) -> MethodFilter:
    method = getattr(bound.resource, FILTER_METHOD + name)
    values = {"name": FILTER_METHOD + name}
    if lookup != "exact":
        text = gettext_lazy("%(name)r decides how to compare, so the filter has no lookup %(lookup)r")
        raise PathError(
            text, gettext_lazy("Write its lookups as ['exact'], or use a list of filters."), lookup=lookup, **values
        )
    parameters = list(inspect.signature(method).parameters.values())
    is_plain = all(parameter.kind in _POSITIONAL for parameter in parameters)
    is_late = inspect.iscoroutinefunction(method) or inspect.isgeneratorfunction(method)
    if len(parameters) != len(FILTER_PARAMETERS) or not is_plain or is_late:
        raise PathError(
            gettext_lazy("%(name)r must be a synchronous method that takes %(parameters)s"),
            gettext_lazy("Write it as: def %(name)s(self, %(parameters)s: bool): return queryset.filter(…)"),
            parameters=", ".join(FILTER_PARAMETERS),
            **values,
        )
    try:
        annotation = typing.get_type_hints(inspect.unwrap(written), include_extras=True).get(parameters[-1].name)
        if annotation is None or any(map(is_rows, leaves(annotation))):
            raise PathError(
                gettext_lazy("%(name)r must annotate its value with a type that JSON has"),
                gettext_lazy("Annotate it, such as value: bool. For a row, take its key."),
                **values,
            )
        json_schema(TypeAdapter(annotation), "validation")
    except (NameError, TypeError, PydanticUserError) as error:
        raise PathError(
            gettext_lazy("the annotation of the value of %(name)r has no JSON Schema: %(error)s"),
            gettext_lazy("Correct the annotation."),
            error=str(error),
            **values,
        ) from None
    words = name.replace(LOOKUP_SEP, " ").replace("_", " ")
    description = read_docstring(own_docstring(written))[0] or f"Filter: {words}."
    return MethodFilter(name, method, annotation, description, getattr(written, "short_description", words))


def _filter(bound: BoundResource, source: str, lookup: str) -> Filter:
    if lookup not in FILTER_LOOKUPS:
        raise PathError(
            gettext_lazy("%(source)r cannot be filtered with %(lookup)r; supported lookups are %(lookups)s"),
            gettext_lazy("Use a supported lookup."),
            source=source,
            lookup=lookup,
            lookups=", ".join(sorted(FILTER_LOOKUPS)),
        )
    path = bound.path(source)
    argument = source if lookup == "exact" else f"{source}{LOOKUP_SEP}{lookup}"
    if path.field.is_relation and (target := bound.on_server(path.field.related_model)) and lookup != "isnull":
        path = read_path(bound.model, f"{source}{LOOKUP_SEP}{target.resource.lookup_field}")
    _require_comparable(path, lookup)
    return Filter(argument, source, path, lookup)


def _require_comparable(path: Path, lookup: str) -> None:
    field = path.value_field
    if lookup != "isnull" and is_composite(path.end):
        raise PathError(
            gettext_lazy(
                "%(source)r refers to %(model)s, which has a composite primary key; filter by one of its columns"
            ),
            gettext_lazy("Filter by one of its columns."),
            source=path.source,
            model=path.end.model._meta.label,  # noqa: SLF001 - Django's documented API
        )
    fits = {
        TEXT_LOOKUPS: not (
            isinstance(field, models.IntegerField | models.BooleanField | models.DateField) or is_json(field)
        ),
        DATE_LOOKUPS: isinstance(field, models.DateField)
        and (lookup != "date" or isinstance(field, models.DateTimeField)),
        RANGE_LOOKUPS: not (isinstance(field, models.BooleanField) or is_json(field)),
        ("exact", "in"): not (isinstance(field, models.BinaryField) or is_json(field)),
        # File paths are not shown, so they cannot be compared. Arguments cannot be arrays or ranges.
        (*EQUALITY_LOOKUPS[:2], *RANGE_LOOKUPS, *TEXT_LOOKUPS): not (
            isinstance(field, models.FileField) or is_array(field) or is_range(field)
        ),
    }
    for lookups, fitting in fits.items():
        if lookup in lookups and not fitting:
            raise PathError(
                gettext_lazy("%(source)r is a %(kind)s, which cannot be filtered with %(lookup)r"),
                gettext_lazy("Use another lookup, or remove it."),
                source=path.source,
                kind=type(field).__name__,
                lookup=lookup,
            )


def _orderings(bound: BoundResource) -> dict[str, Sequence[OrderingKey]]:
    pk = read_path(bound.model, "pk")
    ordering = [_order_of(expression) for expression in bound.resource.ordering]
    own = [_key(bound, expression) for expression in ordering or _default_ordering(bound)]
    # The primary key follows the direction of the last key, so that one index serves both.
    orderings: dict[str, Sequence[OrderingKey]] = {"": [*own, OrderingKey(pk, bool(own) and own[-1].is_descending)]}
    for name in (*ordering, *bound.resource.ordering_fields):
        name = name.removeprefix("-")  # noqa: PLW2901 - both ways are offered
        for way in (name, f"-{name}"):
            key = _key(bound, way)
            orderings[way] = [key, OrderingKey(pk, key.is_descending)]
    return orderings


def _order_of(declared: Any) -> str:
    order = declared.asc() if isinstance(declared, F) else declared
    if isinstance(order, str):
        return order
    if isinstance(order, OrderBy) and isinstance(order.expression, F):
        path: Any = order.expression
        if not (order.nulls_first if not order.descending else order.nulls_last):
            return f"{'-' if order.descending else ''}{path.name}"
        raise PathError(
            gettext_lazy("ordering: %(declared)s is not supported: nulls sort last, and in descending order first"),
            gettext_lazy("Remove nulls_first and nulls_last."),
            declared=str(declared),
        )
    raise PathError(
        gettext_lazy("ordering: rows cannot be sorted by the expression %(declared)s"),
        gettext_lazy("Add it to annotations, and sort by its name."),
        declared=str(declared),
    )


def _default_ordering(bound: BoundResource) -> Sequence[str]:
    # A relation in it stands for the ordering of the related model, which is not supported.
    allowed = {column.name for column in bound.output_fields if isinstance(column, ValueField)}
    allowed |= {"pk", bound.options.pk.name, bound.lookup_name, *bound.resource.filter_only_fields}
    declared: Sequence[Any] = bound.options.ordering or ()
    for entry in declared:
        name = entry.removeprefix("-") if isinstance(entry, str) else ""
        field = bound.options.pk if name == "pk" else _own_field(bound.model, name)
        if name not in allowed or field is None or field.is_relation or _is_no_plain_value(value_field(field)):
            return ()
    return declared


def _key(bound: BoundResource, declared: str) -> OrderingKey:
    path = bound.path(declared.removeprefix("-"))
    if path.is_many or _is_no_plain_value(path.value_field):
        raise PathError(
            gettext_lazy("rows cannot be sorted by %(declared)r: it is a set of rows, JSON or bytes"),
            gettext_lazy("Use a column, or an annotation that is one value of each row, such as Count(%(declared)r)."),
            declared=declared.removeprefix("-"),
        )
    return OrderingKey(path, declared.startswith("-"))


def _measures(bound: BoundResource) -> Iterator[tuple[str, Measure]]:
    for source, names in (bound.resource.aggregates or {}).items():
        path = read_path(bound.model, source)
        for name in names:
            if name not in FUNCTIONS:
                raise PathError(
                    gettext_lazy(
                        "aggregates: %(source)r has the unknown function %(name)r; use %(functions)s. "
                        "Counts need no entry"
                    ),
                    gettext_lazy("Use a supported function."),
                    source=source,
                    name=name,
                    functions=", ".join(FUNCTIONS),
                )
            _require_adding_up(path, name)
            yield f"{name}_{source}", Measure(name, path)


def _is_no_plain_value(field: Any) -> bool:
    return isinstance(field, models.BinaryField | models.FileField) or is_json(field)


_NUMBERS = (models.IntegerField, models.FloatField, models.DecimalField, models.DurationField)


def _require_adding_up(path: Path, function: str) -> None:
    field = path.value_field
    is_none = field.is_relation or _is_no_plain_value(field)
    if path.is_many or is_none or (function in {"sum", "avg"} and not isinstance(field, _NUMBERS)):
        raise PathError(
            gettext_lazy("aggregates: %(source)r is a %(kind)s, which does not support %(function)s"),
            REMOVE_IT,
            source=path.source,
            kind=type(field).__name__,
            function=function,
        )


def _dimension(bound: BoundResource, declared: str) -> Dimension:
    source, part = _split(bound, declared, PARTS)
    path = read_path(bound.model, source)
    if path.is_many:
        relation = (*path.hops, path.field)[0]
        between = getattr(relation, "through", None) or getattr(relation.remote_field, "through", None)
        raise PathError(
            gettext_lazy("group_by_fields: rows cannot be grouped by %(declared)r: it is a set of rows"),
            gettext_lazy("Register %(model)s, which has a row for each of the set, with group_by_fields there."),
            declared=declared,
            model=(between or relation.related_model)._meta.label,  # noqa: SLF001 - Django's documented API
        )
    if _is_no_plain_value(path.value_field):
        raise PathError(
            gettext_lazy("group_by_fields: rows cannot be grouped by %(declared)r: it is a file, JSON or bytes"),
            gettext_lazy("Use a column with a plain value."),
            declared=declared,
        )
    if part and not isinstance(path.value_field, models.DateField):
        raise PathError(
            gettext_lazy("group_by_fields: %(source)r is not a date, so it has no %(part)r"),
            gettext_lazy("Use %(source)r, without the part."),
            source=source,
            part=part,
        )
    target = bound.on_server(path.field.related_model) if path.field.is_relation else None
    return Dimension(path, part or None, target)


# Writable fields


def declared_names(bound: BoundResource) -> list[str]:
    form = bound.resource.form
    if form is None:
        return list(bound.resource.writable_fields)
    return [name for name, field in form.base_fields.items() if not field.disabled]


def written_arguments(bound: BoundResource, *, change: bool) -> dict[str, str]:
    # On update, a new lookup value is new_<name>.
    names = declared_names(bound)
    return {name: f"new_{name}" if change and name == bound.lookup_name else name for name in names}


def own_fields(bound: BoundResource) -> Mapping[str, Any]:
    return {field.name: field for field in (*bound.options.concrete_fields, *bound.options.many_to_many)}


def field_problems(bound: BoundResource) -> Iterator[tuple[str, str]]:
    for name in declared_names(bound):
        yield from _problems_of_form(bound, name) if bound.resource.form else _problems_of_field(bound, name)
    names = [bound.lookup_name, *written_arguments(bound, change=True).values()]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield _("two arguments would have the name %(name)r") % {"name": name}, _("Remove one of the fields.")


def _problems_of_field(bound: BoundResource, name: str) -> Iterator[tuple[str, str]]:
    own = own_fields(bound)
    field = own.get(name)
    if field is None:
        names = ", ".join(repr(field.name) for field in own.values() if _why_not(field) is None)
        text = _("writable_fields: %(model)s has no field %(name)r of its own")
        yield text % {"model": bound.options.label, "name": name}, _("Choose from %(names)s.") % {"names": names}
        return
    yield from _unwritable("writable_fields", field)
    if field.is_relation and bound.on_server(field.related_model) is None:
        text = _("writable_fields: %(name)r refers to %(model)s, which is not registered here")
        hint = _("Register that model at the same endpoint to define which rows a caller may choose, or use a form.")
        yield text % {"name": name, "model": field.related_model._meta.label}, hint  # noqa: SLF001


def _problems_of_form(bound: BoundResource, name: str) -> Iterator[tuple[str, str]]:
    form = bound.resource.form
    field = own_fields(bound).get(name) if name in (form._meta.fields or ()) else None  # noqa: SLF001 - of ModelForm
    if field is None:
        return
    yield from _unwritable("form", field)
    if field.is_relation and not isinstance(form.base_fields[name], forms.ModelChoiceField):
        text = _("form: %(field)r is a relation, but its form field is a %(kind)s")
        hint = _("Use a ModelChoiceField, or remove the form field.")
        yield text % {"field": name, "kind": type(form.base_fields[name]).__name__}, hint


def _unwritable(attribute: str, field: Any) -> Iterator[tuple[str, str]]:
    if (why := _why_not(field)) is not None:
        text = _("%(attribute)s: %(field)r %(why)s, so it cannot be written")
        values = {"attribute": attribute, "field": field.name, "why": why}
        yield text % values, _("Remove it. A value that callers do not give can be set in save_model.")


def _why_not(field: Any) -> str | None:
    if field.primary_key:
        return _("is the primary key")
    if isinstance(field, models.FileField | models.BinaryField):
        return _("holds a file or bytes")
    if is_range(innermost(field)):
        return _("is a range") if is_range(field) else _("has ranges")
    if not field.editable:
        return _("is not editable")
    if field.many_to_many and not field.remote_field.through._meta.auto_created:  # noqa: SLF001 - as the admin does
        return _("uses a custom through model")
    return None
