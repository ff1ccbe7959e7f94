"""System checks of ``ModelResource`` declarations."""

import difflib
import inspect
from collections.abc import Iterator, Mapping
from typing import Any

from django.core.checks import CheckMessage, Error, Warning  # noqa: A004
from django.db import models
from django.db.models.constants import LOOKUP_SEP
from django.utils.translation import gettext as _

from django_mcp.core.server import every_server
from django_mcp.model_resources.apps import is_app_option
from django_mcp.model_resources.bound_resource import BoundResource
from django_mcp.model_resources.compile import FILTER_METHOD, compile_declaration, declared_names
from django_mcp.model_resources.filters import Filter, MethodFilter
from django_mcp.model_resources.options import ACTIONS, HOOKS, READ_TOOLS, ModelResource
from django_mcp.model_resources.paths import Path, PathError, is_composite, is_unique
from django_mcp.model_resources.queryset import COUNT
from django_mcp.model_resources.schema import has_default
from django_mcp.model_resources.serializers import FunctionField, RelatedLinkField, RelatedListField, ValueField
from django_mcp.model_resources.tools import RESERVED, writing_problems
from django_mcp.secret_names import FIELDS, match

_CUTOFF = 0.85
_OWN_PACKAGE = __name__.partition(".")[0]


def _kinds(resource: ModelResource) -> tuple[list[Any], list[Any]]:
    """Return the site's classes that make up a declaration, and those of the package."""
    kinds: list[Any] = [kind for kind in type(resource).__mro__ if kind is not object]
    ours = [kind for kind in kinds if kind.__module__.partition(".")[0] == _OWN_PACKAGE]
    return [kind for kind in kinds if kind not in ours], ours


def replaced(resource: ModelResource) -> Iterator[str]:
    """Yield the site's attributes that have the name of something ``ModelResource`` uses itself.

    A helper of the site such as ``_may(ctx, action, row)`` would decide in place of the package's method.
    """
    sites, ours = _kinds(resource)
    public = {*HOOKS, *(name for kind in ours for name in inspect.get_annotations(kind))}
    inner = {name for kind in ours for name in vars(kind) if not name.startswith("__")} - public
    yield from dict.fromkeys(name for kind in sites for name in vars(kind) if name in inner)


def misspelt(resource: ModelResource) -> Iterator[tuple[str, str]]:
    """Yield attributes that look like misspelled options or hooks, each with the closest known name."""
    sites, ours = _kinds(resource)
    known = {name for kind in ours for name in vars(kind) if not name.startswith("_")} | vars(resource).keys()
    shown = {name for name in (*resource.fields, *(resource.list_fields or ())) if isinstance(name, str)}
    shown |= {f"{FILTER_METHOD}{name}" for name in resource.filterset_fields}
    declared = dict.fromkeys(name for kind in sites for name in vars(kind))
    for name in declared:
        if name.startswith("_") or name in known or name in shown:
            continue
        if close := difflib.get_close_matches(name, sorted(known), n=1, cutoff=_CUTOFF):
            yield name, close[0]


_FILES: Any = (models.FileField, models.BinaryField)
_LISTS = (
    *(
        "list_fields",
        "search_fields",
        "filterset_fields",
        "ordering",
        "ordering_fields",
        "group_by_fields",
        "filter_only_fields",
        "secret_fields",
    ),
    *("writable_fields", "scopes", "write_scopes", "select_related", "prefetch_related"),
)


def problems(bound: BoundResource) -> list[Error]:
    """Compile a declaration and return its errors."""
    resource = bound.resource
    if bound.options.abstract:
        return [_abstract(bound)]
    if is_composite(bound.options.pk):
        return [_composite(bound)]
    if unread := list(_unread(bound)):
        return unread
    try:
        compile_declaration(bound)
    except PathError as error:
        return [
            Error(
                _("%(resource)r: %(text)s.") % {"resource": resource, "text": error},
                hint=error.hint,
                id="django_mcp.E022",
            )
        ]
    found = [
        *_shape(bound),
        *_groups(bound),
        *_connector(bound),
        *_secrets(bound),
        *_undeclared(bound),
        *_per_row(bound),
    ]
    for text, hint in writing_problems(bound):
        text = _("%(resource)r: %(text)s.") % {"resource": resource, "text": text}  # noqa: PLW2901 - of this resource
        found.append(Error(text, hint=hint, id="django_mcp.E027"))
    return found


def found_problems() -> list[Error]:
    return [
        problem
        for endpoint in every_server()
        for bound in endpoint.model_resources.values()
        for problem in bound.problems or ()
    ]


def _abstract(bound: BoundResource) -> Error:
    text = _("%(resource)r: %(model)s is abstract, so it has no rows.") % {
        "resource": bound.resource,
        "model": bound.options.label,
    }
    return Error(
        text, hint=_("Register the models that inherit from it; they may share a declaration."), id="django_mcp.E052"
    )


def name_taken(bound: BoundResource, key: str, other: str) -> Error:
    text = _("%(resource)r: %(key)r is already the name of %(other)s.") % {
        "resource": bound.resource,
        "key": key,
        "other": other,
    }
    hint = _("Set name = … and plural = … or, for the URI of a resource, uri = ….")
    return Error(text, hint=hint, id="django_mcp.E051")


def _composite(bound: BoundResource) -> Error:
    text = _(
        "%(resource)r: %(model)s has a composite primary key (%(columns)s), so no single value identifies a row."
    ) % {
        "resource": bound.resource,
        "model": bound.options.label,
        "columns": ", ".join(bound.options.pk.field_names),  # type: ignore[attr-defined]
    }
    hint = _("Register a related model and show the values there, or write a tool.")
    return Error(text, hint=hint, id="django_mcp.E050")


def _unread(bound: BoundResource) -> Iterator[Error]:
    """Yield errors that prevent compilation, and attributes that would be ignored."""
    resource = bound.resource
    if isinstance(resource.fields, str) or not resource.fields:
        text = _("%(resource)r does not declare fields.") % {"resource": resource}
        if resource.fields:
            text = _("%(resource)r does not declare a list of fields: fields is %(fields)r, a string.") % {
                "resource": resource,
                "fields": resource.fields,
            }
        hint = _(
            "Set fields to a list of names. '__all__' is not supported, so that new columns are not exposed "
            "automatically."
        )
        yield Error(text, hint=hint, id="django_mcp.E065")
    yield from _lists(resource)
    if not is_app_option(resource.app):
        text = _("%(resource)r: app is %(app)r, which is not valid.") % {"resource": resource, "app": resource.app}
        hint = _("Use True, or a dict from %(known)s to True, the name of a template or what ui(…) returns.")
        yield Error(text, hint=hint % {"known": ", ".join(map(repr, READ_TOOLS))}, id="django_mcp.E067")
    if resource.lookup_field not in {"pk", *(field.name for field in bound.options.concrete_fields)}:
        text = _("%(resource)r: lookup_field %(name)r is not a column of the model.") % {
            "resource": resource,
            "name": resource.lookup_field,
        }
        yield Error(
            text, hint=_("Use a unique field, or remove lookup_field to use the primary key."), id="django_mcp.E025"
        )
    for name, meant in misspelt(resource):
        text = _("%(resource)r: unknown attribute %(name)r. Did you mean %(meant)r?") % {
            "resource": resource,
            "name": name,
            "meant": meant,
        }
        yield Error(
            text,
            hint=_("Correct the name. If it is an attribute of your own, choose a less similar name."),
            id="django_mcp.E068",
        )
    for name in replaced(resource):
        text = _("%(resource)r: the name %(name)r is used by ModelResource itself.") % {
            "resource": resource,
            "name": name,
        }
        yield Error(text, hint=_("Choose another name."), id="django_mcp.E077")
    # Grouping fields that were read from an admin are only used if aggregates are declared.
    own = next(base for base in type(resource).__mro__ if "group_by_fields" in vars(base))
    if resource.group_by_fields and resource.aggregates is None and "admin" not in vars(own):
        text = _("%(resource)r: group_by_fields has no effect without aggregates.") % {"resource": resource}
        yield Error(text, hint=_("Set aggregates = {} to allow counts only."), id="django_mcp.E069")


def _lists(resource: ModelResource) -> Iterator[Error]:
    """Yield lists of names that are not lists, or have something else in them."""
    for name in _LISTS:
        if isinstance(value := getattr(resource, name), str):
            text = _("%(resource)r: %(name)s is %(value)r, a string instead of a list.") % {
                "resource": resource,
                "name": name,
                "value": value,
            }
            yield Error(
                text,
                hint=_("Use a list: %(name)s = [%(value)r].") % {"name": name, "value": value},
                id="django_mcp.E066",
            )
    for name in _LISTS:
        if (value := getattr(resource, name)) and not isinstance(value, str | Mapping):
            others = [other for other in value if not isinstance(other, str)]
            if others and name != "ordering":
                text = _("%(resource)r: %(name)s has %(value)r, which is not a name.") % {
                    "resource": resource,
                    "name": name,
                    "value": others[0],
                }
                yield Error(text, hint=_("Use names of fields or paths, as strings."), id="django_mcp.E066")
    for entry in resource.fields:
        if not (isinstance(entry, str) or (callable(entry) and hasattr(entry, "__name__"))):
            text = _("%(resource)r: fields has %(value)r, which is not a name or a function.") % {
                "resource": resource,
                "value": entry,
            }
            yield Error(text, hint=_("Use a string, or a function with a name."), id="django_mcp.E066")


def _shape(bound: BoundResource) -> Iterator[Error]:
    resource = bound.resource
    lookup = bound.lookup
    if not is_unique(lookup) or (lookup.is_relation and lookup is not bound.options.pk):
        text = _("%(resource)r: lookup_field %(name)r is not unique, so it does not identify a row.") % {
            "resource": resource,
            "name": bound.lookup_name,
        }
        yield Error(
            text, hint=_("Use a unique field, or remove lookup_field to use the primary key."), id="django_mcp.E025"
        )
    elif lookup.null:
        text = _("%(resource)r: lookup_field %(name)r may be null, so it does not identify every row.") % {
            "resource": resource,
            "name": bound.lookup_name,
        }
        yield Error(
            text,
            hint=_("Use a field that is never null, or remove lookup_field to use the primary key."),
            id="django_mcp.E025",
        )
    yield from _plain_fields(bound)
    names = {column.name for column in bound.output_fields}
    for filter_ in bound.filters:
        if filter_.argument in RESERVED:
            text = _("%(resource)r: a filter cannot have the name %(argument)r, which is that of another argument.") % {
                "resource": resource,
                "argument": filter_.argument,
            }
            yield Error(
                text,
                hint=_("Declare it with a lookup, such as '%(argument)s__in'.") % {"argument": filter_.argument},
                id="django_mcp.E071",
            )
    if "uri" in names:
        yield Error(
            _("%(resource)r: the name 'uri' is reserved for the row's URI.") % {"resource": resource},
            hint=_("Show the field with a method of another name."),
            id="django_mcp.E071",
        )
    for attribute, known in (("tools", READ_TOOLS), ("actions", ACTIONS)):
        value = getattr(resource, attribute)
        if isinstance(value, str) or set(value) - set(known):
            text = _("%(resource)r: %(attribute)s is %(value)r, which is not valid.") % {
                "resource": resource,
                "attribute": attribute,
                "value": value,
            }
            yield Error(
                text,
                hint=_("Use a list with any of %(known)s.") % {"known": ", ".join(map(repr, known))},
                id="django_mcp.E067",
            )


def _plain_fields(bound: BoundResource) -> Iterator[Error]:
    """Yield a title or time of a change that is not one value of the row."""
    resource = bound.resource
    # A method may show less than the column of the same name, so it does not count as shown.
    own = {column.name: column.path.field for column in bound.output_fields if column.path and not column.path.hops}
    own = {name: field for name, field in own.items() if name not in bound.annotations}
    own[bound.lookup_name] = bound.lookup
    for attribute, kind in (("title_field", models.Field), ("modified_field", models.DateField)):
        name = getattr(resource, attribute)
        field = own.get(name)
        if attribute == "title_field" and _is_title(bound.title_output_field):
            continue
        if name is not None and (not isinstance(field, kind) or field.is_relation or isinstance(field, _FILES)):
            what = _("date or datetime") if kind is models.DateField else _("plain value")
            text = _(
                "%(resource)r: %(attribute)s %(name)r must be a column of the model, be listed in fields and "
                "hold a %(what)s."
            ) % {"resource": resource, "attribute": attribute, "name": name, "what": what}
            yield Error(text, hint=_("Use such a column, or add the column to fields."), id="django_mcp.E072")


def _is_title(column: Any) -> bool:
    return isinstance(column, FunctionField) or (isinstance(column, ValueField) and not column.path.field.is_relation)


def _groups(bound: BoundResource) -> Iterator[Error]:
    resource = bound.resource
    taken = {COUNT, *bound.measures}
    for name in [name for name in bound.dimensions if name in taken]:
        text = _("%(resource)r: %(name)r in group_by_fields is also the name of an aggregate.") % {
            "resource": resource,
            "name": name,
        }
        yield Error(text, hint=_("Remove it. The column can still be filtered by."), id="django_mcp.E070")


def _connector(bound: BoundResource) -> Iterator[Error]:
    if bound.is_in_connector and not bound.search_fields:
        yield Error(
            _("%(resource)r: the connector cannot search %(model)s, which declares no search_fields.")
            % {"resource": bound.resource, "model": bound.options.label},
            hint=_("Set search_fields, or leave the model out of the connector."),
            id="django_mcp.E073",
        )


def _compared(bound: BoundResource) -> Iterator[tuple[str, str, Path]]:
    """Yield the attribute, declared name and path of everything that callers may compare, sort or group by."""
    for field in bound.search_fields:
        yield "search_fields", field.path.source, field.path
    for filter_ in bound.filters:
        if isinstance(filter_, Filter):
            yield "filterset_fields", filter_.declared, filter_.path
    for keys in bound.orderings.values():
        for key in keys:
            yield "ordering", key.path.source, key.path
    for measure in bound.measures.values():
        yield "aggregates", measure.path.source, measure.path
    for dimension in bound.dimensions.values():
        yield "group_by_fields", dimension.path.source, dimension.path


def _secrets(bound: BoundResource) -> Iterator[Error]:
    resource = bound.resource
    shown = [("fields", column.name) for column in bound.output_fields]
    written = [("writable_fields", name) for name in resource.writable_fields]
    written += [("form", name) for name in getattr(resource.form, "base_fields", ())]
    paths = [(attribute, source) for attribute, source, _path in _compared(bound)]
    paths += [("filterset_fields", filter_.argument) for filter_ in bound.filters if isinstance(filter_, MethodFilter)]
    lookup = [("lookup_field", bound.lookup_name)]
    for attribute, source in dict.fromkeys([*shown, *paths, *written, *lookup]):
        if source not in resource.secret_fields and any(match(part, FIELDS) for part in source.split(LOOKUP_SEP)):
            text = _("%(resource)r: %(source)r in %(attribute)s looks like a secret.") % {
                "resource": resource,
                "source": source,
                "attribute": attribute,
            }
            hint = _("Remove it. If it is not a secret, confirm it with secret_fields = [%(source)r].") % {
                "source": source
            }
            yield Error(text, hint=hint, id="django_mcp.E023")


def _undeclared(bound: BoundResource) -> Iterator[Error]:
    resource = bound.resource
    # A method may show less than the column of the same name.
    shown = {column.name for column in bound.output_fields if column.path is not None}
    shown |= {"pk", bound.lookup_name, bound.options.pk.name}
    # A link shows the title and the key of its row.
    for column in bound.output_fields:
        if isinstance(column, RelatedLinkField | RelatedListField) and column.target is not None:
            names = (column.target.title_field, column.target.lookup_name)
            shown |= {f"{column.name}{LOOKUP_SEP}{name}" for name in names if name}
    for attribute, source in dict.fromkeys((attribute, source) for attribute, source, _path in _compared(bound)):
        if source not in shown and source not in resource.filter_only_fields:
            text = _(
                "%(resource)r: %(source)r in %(attribute)s is not in fields, but callers could infer its values "
                "by comparing."
            ) % {"resource": resource, "source": source, "attribute": attribute}
            hint = _("Add it to fields. If this is intended, confirm it with filter_only_fields = [%(source)r].") % {
                "source": source
            }
            yield Error(text, hint=hint, id="django_mcp.E024")


def _per_row(bound: BoundResource) -> Iterator[Error]:
    """Yield aggregates, annotations and paths that would reveal hidden rows."""
    resource = bound.resource
    if bound.checks_each_row and resource.aggregates is not None:
        text = _("%(resource)r: aggregates would count rows that has_view_permission hides.") % {"resource": resource}
        yield Error(text, hint=_("Remove aggregates, or restrict rows in get_queryset instead."), id="django_mcp.E026")
    for name, annotation in bound.annotations.items():
        if hiding := [hop for hop in annotation.relations if not bound.rules_of(hop.related_model).has_plain_rows]:
            text = _("%(resource)r: %(name)r in annotations would reveal hidden rows of %(model)s.") % {
                "resource": resource,
                "name": name,
                "model": hiding[0].related_model._meta.label,  # noqa: SLF001 - Django's documented API
            }
            hint = _(
                "Annotate it in get_queryset from the rows that the caller may see, and declare only its type: "
                "annotations = {%(name)r: models.%(field)s()}."
            ) % {"name": name, "field": annotation.field.get_internal_type()}
            yield Error(text, hint=hint, id="django_mcp.E074")
    for attribute, source, path in _compared(bound):
        for _prefix, relation in path.prefixes:
            if path.source == "pk" and bound.options.pk.is_relation:  # a child's key is the link to its own parent row
                continue
            rules = bound.rules_of(relation.related_model)
            if rules.checks_each_row:
                text = _("%(resource)r: %(source)r in %(attribute)s would reveal rows that %(target)r hides.") % {
                    "resource": resource,
                    "source": source,
                    "attribute": attribute,
                    "target": rules.resources[0],
                }
                hint = _("Remove it, or restrict the rows of that model in get_queryset instead.")
                yield Error(text, hint=hint, id="django_mcp.E076")
                break


def check_required_columns() -> Iterator[CheckMessage]:
    """Warn about models whose rows need a column that no argument, default or ``save_model`` sets."""
    for bound in (bound for server in every_server() for bound in server.model_resources.values() if bound.is_sound):
        if names := _unset(bound):
            yield Warning(
                _("%(resource)r: no argument of create_%(name)s and no default sets %(columns)s, needed by %(model)s.")
                % {
                    "resource": bound.resource,
                    "name": bound.name,
                    "columns": ", ".join(names),
                    "model": bound.options.label,
                },
                hint=_(
                    "Set them in save_model; a row of a tree is also added to its parent there. If the model, its form "
                    "or a signal sets them, override save_model and call super() to say so."
                ),
                id="django_mcp.W043",
            )


def _unset(bound: BoundResource) -> list[str]:
    """Return the required columns that no argument and no default sets, unless the site has its own ``save_model``.

    Code of the model, of its form and of signals is not read: what it sets cannot be known.
    """
    resource = bound.resource
    if "create" not in resource.actions or type(resource).save_model is not ModelResource.save_model:
        return []
    given = declared_names(bound)
    return [field.name for field in bound.options.concrete_fields if field.name not in given and _must_be_set(field)]


def _must_be_set(field: Any) -> bool:
    # Columns that are not editable are left out: no form shows them, so the site or a package sets them.
    sets_itself = not type(field).pre_save.__module__.startswith("django.")
    is_link = field.remote_field is not None and field.remote_field.parent_link
    is_made = getattr(field, "generated", False) or isinstance(field, models.AutoField) or is_link
    return field.editable and not (field.null or field.blank or has_default(field) or is_made or sets_itself)


ALWAYS = (found_problems, check_required_columns)
