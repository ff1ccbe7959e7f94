"""JSON Schemas of an operation's parameters, body and response, from drf-spectacular.

Annotations such as ``@extend_schema`` come first, then the site's own schema class, then the corrections below:
arguments are validated, so a field of unknown type accepts any JSON, where drf-spectacular would say string.
"""

try:
    import drf_spectacular  # noqa: F401 - a site with an API need not have it
except ModuleNotFoundError as error:
    msg = "drf_tools describes APIs with drf-spectacular: pip install 'django-mcp-toolkit[drf]'"
    raise ImportError(msg) from error


import copy
import inspect
import logging
import typing
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import lru_cache
from typing import Any

from django.core.exceptions import FieldDoesNotExist, ImproperlyConfigured
from django.db import DatabaseError
from django.db.models import Model
from django.db.models.constants import LOOKUP_SEP
from django.utils.encoding import force_str
from django.utils.functional import Promise
from pydantic import TypeAdapter
from pydantic.errors import PydanticUserError
from rest_framework import ISO_8601, serializers
from rest_framework.fields import Field
from rest_framework.filters import OrderingFilter, SearchFilter
from rest_framework.generics import GenericAPIView
from rest_framework.relations import (
    HyperlinkedRelatedField,
    ManyRelatedField,
    PrimaryKeyRelatedField,
    RelatedField,
    SlugRelatedField,
)
from rest_framework.schemas import DefaultSchema
from rest_framework.schemas.openapi import AutoSchema as OtherSchema
from rest_framework.serializers import BaseSerializer, ListSerializer, Serializer
from rest_framework.settings import api_settings
from rest_framework.utils.humanize_datetime import date_formats, datetime_formats, time_formats

from django_mcp.contrib.drf.operations import Operation
from django_mcp.contrib.openapi import (
    ArgumentLocation,
    Document,
    Schema,
    join_text,
    parameter_locations,
    without_required,
)
from django_mcp.model_resources.form_schema import file_argument
from django_mcp.model_resources.schema import json_type
from django_mcp.primitives.field_schema import (
    DECIMAL_INPUT,
    choice_schema,
    choice_words,
    custom_type,
    digit_words,
    limits,
    output_schema_of,
    schema_of,
)
from django_mcp.primitives.schema import json_schema
from django_mcp.primitives.validation_errors import with_article

try:
    from drf_spectacular.drainage import GENERATOR_STATS, get_override, has_override
    from drf_spectacular.extensions import OpenApiFilterExtension, OpenApiSerializerFieldExtension
    from drf_spectacular.openapi import AutoSchema
    from drf_spectacular.plumbing import (
        ComponentRegistry,
        build_basic_type,
        build_serializer_context,
        force_instance,
        is_serializer,
    )
    from drf_spectacular.types import OpenApiTypes
    from drf_spectacular.utils import OpenApiRequest, OpenApiResponse
except ModuleNotFoundError as error:  # a site with an API need not have it
    msg = "drf_tools describes APIs with drf-spectacular: pip install 'django-mcp-toolkit[drf]'"
    raise ImportError(msg) from error

logger = logging.getLogger("django_mcp")

NOTHING: Any = object()
"""An undeclared request or response."""
FREE: Schema = {"description": "The JSON to send."}
"""A body of unknown type."""
MANY_FILTERS = 60
"""Above this number of filters in a class, filters made from lookups are offered only if named."""


# Models


def model_column(model: Any, path: str) -> Any:
    """Return the field at the end of a path such as ``owner__username``; None if there is none."""
    column = None
    for step in path.replace(".", "__").split("__"):
        if model is None:
            return None
        try:
            column = model._meta.pk if step == "pk" else model._meta.get_field(step)  # noqa: SLF001 - Django's documented API
        except FieldDoesNotExist:
            return None
        model = column.related_model
    return column


def verbose_name(model: Any) -> str:
    return str(model._meta.verbose_name)  # noqa: SLF001 - Django's documented API


def annotation_schema(annotation: Any) -> Schema | None:
    try:
        found = json_schema(TypeAdapter(annotation), "serialization")
    except PydanticUserError:
        return None
    definitions = found.pop("$defs", {})
    return Document(definitions).schema(found)  # type: ignore[no-any-return]


# Fields


def is_writable(field: Field) -> bool:
    return not field.read_only and not isinstance(field, serializers.HiddenField)


def is_upload(field: Field) -> bool:
    # Some subclasses of FileField accept text instead.
    own = type(field).to_internal_value in (
        serializers.FileField.to_internal_value,
        serializers.ImageField.to_internal_value,
    )
    return isinstance(field, serializers.FileField) and own


def _is_sites(method: Any) -> bool:
    return not (getattr(method, "__module__", None) or "").startswith("rest_framework.")


def is_read_by_the_site(field: Field) -> bool:
    """Return True for a relation whose input is parsed by the site's code, and so may be a key or an object.

    The serializer of a whole body is excluded: its members are the arguments.
    """
    if not isinstance(field, BaseSerializer | RelatedField) or not _is_sites(type(field).to_internal_value):
        return False
    outer = field.parent
    return outer is not None and not (isinstance(outer, ListSerializer) and outer.parent is None)


def _return_schema(call: Any) -> Schema | None:
    try:
        annotation = typing.get_type_hints(inspect.unwrap(call), include_extras=True).get("return", NOTHING)
    except (NameError, TypeError):  # resolvable by type checkers only
        return None
    return None if annotation is NOTHING else annotation_schema(annotation)


_MOMENTS: tuple[tuple[type[Field], str, str, Any], ...] = (
    (serializers.DateTimeField, "DATETIME_INPUT_FORMATS", "date-time", datetime_formats),
    (serializers.DateField, "DATE_INPUT_FORMATS", "date", date_formats),
    (serializers.TimeField, "TIME_INPUT_FORMATS", "", time_formats),
)


def _input_schema(field: Any) -> Schema | None:  # noqa: PLR0911 - one line for each kind
    """Return the input schema of a field; None leaves it to drf-spectacular."""
    if is_upload(field):
        return {"type": "string", "format": "binary"}
    if isinstance(field, serializers.FilePathField | serializers.FileField):
        return {"type": "string"}  # do not disclose the server's files
    if isinstance(field, serializers.MultipleChoiceField):
        return {"type": "array", "items": _choices(field), "uniqueItems": True}
    if isinstance(field, serializers.ChoiceField):
        return _choices(field)
    if isinstance(field, serializers.DecimalField):
        return {**DECIMAL_INPUT, "description": " ".join(digit_words(field))}
    if isinstance(field, serializers.DurationField):
        return {"type": "string", "description": "[DD] [HH:[MM:]]ss, or ISO 8601 such as P1DT2H."}
    for kind, setting, name, words in _MOMENTS:
        if isinstance(field, kind):
            formats = list(getattr(field, "input_formats", getattr(api_settings, setting)))
            is_iso = name and ISO_8601 in formats
            return {"type": "string", **({"format": name} if is_iso else {"description": f"{words(formats)}."})}
    known = next(kind for kind in type(field).__mro__ if not _is_sites(kind))
    if known is not Field:
        return {} if known is RelatedField else None
    choices = getattr(field, "choices", None)
    is_plain = isinstance(choices, Mapping) and all(isinstance(key, str | int | float | None) for key in choices)
    return _choices(field) if is_plain else {}


def _choices(field: Any) -> Schema:
    blank = [""] if getattr(field, "allow_blank", False) and "" not in field.choices else []
    words = choice_words((key, force_str(label)) for key, label in field.choices.items())
    return {**choice_schema([*blank, *field.choices]), **({"description": words} if words else {})}


def _kind_of_choices(field: Any) -> Schema:
    # Stored values may predate the choices.
    kind = choice_schema(field.choices).get("type")
    return {"type": kind} if isinstance(kind, str) else {}


def _output_schema(field: Any) -> Schema | None:  # noqa: PLR0911 - one line for each kind
    """Return the output schema of a field, likewise."""
    method = type(field).to_representation
    if not is_serializer(field) and _is_sites(method):
        return _return_schema(method) or {}
    if isinstance(field, serializers.MultipleChoiceField):
        return {"type": "array", "items": _kind_of_choices(field)}
    if isinstance(field, serializers.ChoiceField):
        return _kind_of_choices(field)
    if isinstance(field, serializers.FileField):
        return {"type": "string", "nullable": True}
    if isinstance(field, serializers.UUIDField) and field.uuid_format == "int":
        return {"type": "integer"}
    big = getattr(serializers, "BigIntegerField", ())  # since 3.17 of Django REST framework
    if isinstance(field, big) and getattr(field, "coerce_to_string", api_settings.COERCE_BIGINT_TO_STRING):
        return {"type": "string"}
    return {} if next(kind for kind in type(field).__mro__ if not _is_sites(kind)) is Field else None


def _may_be_null(field: Field) -> bool:
    if field.source in (None, "*") or field.parent is None:
        return False
    column = model_column(getattr(getattr(field.parent, "Meta", None), "model", None), field.source)
    return getattr(column, "concrete", False) and bool(column.null)


def _untyped(field: Any, schema: Schema) -> Schema:
    kept = {key: schema[key] for key in ("description", "properties", "items") if schema.get(key)}
    model = getattr(getattr(getattr(field, "child", field), "Meta", None), "model", None)
    if model is None or "properties" not in kept:
        return kept
    noun = with_article(verbose_name(model))
    return {**kept, "description": f"An object, or another value that identifies {noun}, such as its key."}


# Operations


class _ForTools:
    """Overrides of drf-spectacular's schema class, applied after annotations and before all else."""

    operation: Operation
    registry: Any
    view: Any
    given_request: Any = NOTHING
    given_response: Any = NOTHING
    """Declarations of ``drf_tools``, in place of the view's serializers."""
    needs_response = True
    """The response is described, and not only found out whether it is a list."""
    gives_classes = False
    """Give the class of the view's default serializer, and make none."""

    def get_operation_id(self) -> None:
        """Use names made from actions and models."""

    def get_summary(self) -> None:
        """Use the tool's default title."""

    def get_description(self) -> None:
        """Use the tool's default description."""

    def get_request_serializer(self) -> Any:
        if self.given_request is not NOTHING:
            return self.given_request
        operation, own = self.operation, super().get_request_serializer  # type: ignore[misc]
        if operation.is_safe or operation.action in {"destroy", "delete"}:
            return None
        is_sites = getattr(own, "__func__", None) is not AutoSchema.get_request_serializer
        has_own = "serializer_class" in getattr(operation.decorated, "kwargs", {})
        # The view's serializer may not apply to an extra action without its own.
        if operation.is_extra and operation.mapping is not None and not has_own and not is_sites:
            return FREE
        found = own()
        return FREE if found is None and not is_sites else found

    def get_response_serializers(self) -> Any:
        if self.given_response is not NOTHING:
            return self.given_response
        if self.operation.is_extra or self.operation.action == "destroy":
            return NOTHING
        try:
            found = super().get_response_serializers()  # type: ignore[misc]
        except DatabaseError:  # the tool is completed once the database is available
            raise
        except Exception:
            if self.needs_response:
                raise
            return NOTHING
        return NOTHING if found is None else found

    def _get_serializer(self) -> Any:
        return _serializer_class(self.view) if self.gives_classes else default_serializer(self.operation, self.view)

    def _get_format_parameters(self) -> list[Any]:
        return []

    def _map_serializer_field(self, field: Any, direction: str, bypass_extensions: bool = False) -> Any:
        own: Any = super()
        is_request, found = direction == "request", None
        if isinstance(field, Field) and not has_override(field, "field"):
            if custom_type(field) is not None:
                found = schema_of(field) if is_request else output_schema_of(field)
            elif not OpenApiSerializerFieldExtension.get_match(field):
                found = _input_schema(field) if is_request else _output_schema(field)
        if found is None:
            found = own._map_serializer_field(field, direction, bypass_extensions)  # noqa: SLF001 - theirs
        else:
            found = _with_meta(found, self._get_serializer_field_meta(field, direction))
        if found is None or not isinstance(field, Field):
            return found
        if not is_request:
            if isinstance(field, serializers.ListField) and "items" in found:
                found = {**found, "items": {**found["items"], "nullable": True}}
            return {**found, "nullable": True} if _may_be_null(field) else found
        if found.get("type") == "array":
            least = getattr(field, "min_length", None) or (0 if getattr(field, "allow_empty", True) else 1)
            most = getattr(field, "max_length", None)
            found |= {key: value for key, value in {"minItems": least, "maxItems": most}.items() if value}
        if isinstance(field, RelatedField):
            found = _with_meta({"description": _relation_description(field)}, found)
        return _untyped(field, Document(self.components).schema(found)) if is_read_by_the_site(field) else found

    @property
    def components(self) -> Mapping[str, Schema]:
        return self.registry.build({}).get("schemas", {})  # type: ignore[no-any-return]

    def _get_serializer_name(self, serializer: Any, direction: str, bypass_extensions: bool = False) -> str:
        # Distinguish serializers with the same name, or with different fields.
        if isinstance(serializer, Serializer):
            kind, partial = type(serializer), getattr(serializer, "partial", False)
            return f"{kind.__module__}.{kind.__qualname__}.{partial}.{'.'.join(serializer.fields)}"
        return super()._get_serializer_name(serializer, direction, bypass_extensions)  # type: ignore[misc, no-any-return]

    def _get_serializer_field_meta(self, field: Any, direction: str) -> Schema:
        meta: Schema = super()._get_serializer_field_meta(field, direction)  # type: ignore[misc]
        # Keep lazy texts for translation.
        if isinstance(label := getattr(field, "label", None), Promise):
            meta["title"] = label
        if isinstance(words := getattr(field, "help_text", None), Promise):
            meta["description"] = words
        return meta

    def _insert_min_max(self, field: Any, content: Schema) -> None:
        """Do nothing: limits come from validators, not from the database."""

    def _insert_field_validators(self, field: Any, schema: Schema) -> None:
        if schema.get("type") != "array" and not has_override(field, "field"):
            is_filled = isinstance(field, serializers.CharField) and not field.allow_blank and not field.read_only
            schema |= limits(schema, field.validators, is_required=is_filled)

    def _map_response_type_hint(self, method: Any) -> Schema:
        if get_override(method, "field") is None:
            return _return_schema(method) or {}
        return super()._map_response_type_hint(method)  # type: ignore[misc, no-any-return]


def _with_meta(schema: Schema, meta: Schema) -> Schema:
    words = join_text(meta.get("description"), schema.get("description"))
    found = {key: value for key, value in {**schema, **meta}.items() if key != "description"}
    return {**found, "description": words} if words else found


def _relation_description(field: Any) -> str | None:
    model = _model_of_relation(field)
    slug = getattr(field, "slug_field", "").replace("_", " ")
    kinds = {PrimaryKeyRelatedField: "Key", SlugRelatedField: f"The {slug}", HyperlinkedRelatedField: "URL"}
    about = next((words for kind, words in kinds.items() if isinstance(field, kind)), None)
    return f"{about} of {with_article(verbose_name(model))}." if model and about else None


def _model_of_relation(field: Any) -> Any:
    try:
        return getattr(field.get_queryset(), "model", None)
    except DatabaseError:  # likewise
        raise
    except Exception:  # noqa: BLE001 - the site's code, for a request of a caller
        outer = field.parent if isinstance(field.parent, ManyRelatedField) else field
        model = getattr(getattr(outer.parent, "Meta", None), "model", None)
        return getattr(model_column(model, str(outer.source)), "related_model", None)


@lru_cache(maxsize=256)
def _schema_class(noted: Any) -> Any:
    """Return a schema class that applies the annotations of *noted*, then ``_ForTools``, then its base class."""
    behind = next(base for base in noted.__mro__ if base.__module__ != "drf_spectacular.utils")
    if not issubclass(behind, AutoSchema | OtherSchema):
        behind = AutoSchema
    own = (behind,) if issubclass(behind, AutoSchema) else (AutoSchema, behind)
    between = type("Behind", (_ForTools, *own), {})
    return between if noted.__module__ != "drf_spectacular.utils" else type("ToolSchema", (noted, between), {})


def inspector(
    operation: Operation, view: Any, request: Any = NOTHING, response: Any = NOTHING, *, needs_response: bool = True
) -> Any:
    """Return drf-spectacular's schema object for one operation.

    *request* and *response* are declarations in place of the view's serializers, which are then not made. Without
    *needs_response* the view's serializer of the response may fail.
    """
    noted: Any = getattr(operation.decorated, "kwargs", {}).get("schema") or inspect.getattr_static(
        type(view), "schema", None
    )
    noted = noted if inspect.isclass(noted) else type(noted)
    noted = api_settings.DEFAULT_SCHEMA_CLASS if noted is DefaultSchema else noted
    made: Any = _schema_class(noted)()
    made.view, made.method, made.path, made.path_regex, made.path_prefix = view, operation.method, "/", "/", ""
    made.operation, made.given_request, made.given_response = operation, request, response
    made.needs_response = needs_response
    return made


def default_serializer(operation: Operation, view: Any) -> Any:
    partial = {"partial": True} if operation.method == "PATCH" else {}
    own = (getattr(type(view), "get_serializer", None), getattr(type(view), "get_serializer_class", None))
    is_default = own == (GenericAPIView.get_serializer, GenericAPIView.get_serializer_class)
    if is_default and view.serializer_class is None:
        return None
    if own[0] is GenericAPIView.get_serializer:
        # If the view's own context needs a real request, as that of a call is, its class may do without.
        return view.get_serializer_class()(context=build_serializer_context(view), **partial)
    if own[0] is not None:
        return view.get_serializer(**partial)
    made = getattr(view, "serializer_class", None)
    return made(**partial) if made else None


def _serializer_class(view: Any) -> Any:
    own, default = type(view), GenericAPIView
    if getattr(own, "get_serializer_class", default.get_serializer_class) is not default.get_serializer_class:
        return view.get_serializer_class()
    declared = getattr(view, "serializer_class", None)
    if declared is None and getattr(own, "get_serializer", default.get_serializer) is not default.get_serializer:
        return view.get_serializer()
    return declared


def model_of(schema: Any) -> Any:
    """Return the model of the view's rows, or None if unknown.

    It is read from classes: while apps load, making a serializer may query the database.
    """
    view, classes = schema.view, copy.copy(schema)
    if (queryset := getattr(view, "queryset", None)) is not None:
        return queryset.model
    classes.gives_classes = True
    places: tuple[Callable[[], Any], ...] = (
        lambda: _response_note(classes),
        lambda: getattr(view, "serializer_class", None),
        lambda: _request_note(classes),
    )
    for place in places:
        try:
            note = place()
        except Exception:  # noqa: BLE001, S112 - reported when the tool is described; must not prevent startup
            continue
        model = getattr(getattr(getattr(note, "child", note), "Meta", None), "model", None)
        if model is not None:
            return model
    return None


def request_of(schema: Any) -> Any:
    # None if there is no body.
    return _instantiate(_request_note(schema), schema)


def response_of(schema: Any) -> Any:
    """Return the declaration of a success response; ``NOTHING`` if there is none."""
    return _instantiate(_response_note(schema), schema)


def _request_note(schema: Any) -> Any:
    given = schema.given_request  # before the view's annotations
    return _without_media_types(schema.get_request_serializer() if given is NOTHING else given)


def _response_note(schema: Any) -> Any:
    given = schema.given_response
    return _without_statuses(schema.get_response_serializers() if given is NOTHING else given)


def _instantiate(note: Any, schema: Any) -> Any:
    if not inspect.isclass(note) or not issubclass(note, Field):
        return note
    if not issubclass(note, BaseSerializer):
        return note()
    context = {"request": schema.view.request, **build_serializer_context(schema.view)}
    made: Any = note
    return made(context=context, **({"partial": True} if schema.operation.method == "PATCH" else {}))


def _copy_schema(schema: Any) -> Any:
    # Threads may describe a view concurrently.
    made = copy.copy(schema)
    made.registry = ComponentRegistry()
    return made


def instance_of(note: Any) -> Any:
    return force_instance(note)  # type: ignore[no-untyped-call]


def _without_media_types(note: Any) -> Any:
    if isinstance(note, OpenApiRequest):
        return note.request
    if isinstance(note, Mapping) and any("/" in str(key) for key in note):
        return _without_media_types(note.get("application/json", next(iter(note.values()))))
    return note


def _without_statuses(note: Any) -> Any:
    if isinstance(note, OpenApiResponse):
        return note.response
    if isinstance(note, Mapping) and note and all(_status(key) is not None for key in note):
        successes = [key for key in note if str(_status(key)).startswith("2")]
        return _without_statuses(note[min(successes, key=lambda key: str(_status(key)))]) if successes else NOTHING
    return note


def _status(key: Any) -> str | None:
    status = key[0] if isinstance(key, tuple) else key
    return str(status) if str(status)[:1].isdigit() else None


def note_schema(schema: Any, note: Any, direction: str) -> tuple[Schema, Document]:
    """Return the schema of a declaration, and the document it refers to.

    Args:
        note: a serializer or field, a Python type, ``OpenApiTypes``, or a schema.
        direction: ``"request"`` or ``"response"``.
    """
    schema, note = _copy_schema(schema), instance_of(note)
    with GENERATOR_STATS.silence():
        if isinstance(note, dict):
            found = note
        elif isinstance(note, Field) or is_serializer(note):
            found = schema._map_serializer_field(note, direction) or {"type": "object"}  # noqa: SLF001
        elif isinstance(note, OpenApiTypes):
            found = build_basic_type(note) or {"type": "null"}
        else:
            found = annotation_schema(note) or {}
    components = schema.components
    if getattr(note, "partial", False):  # nested fields are not required either
        found, components = without_required(found), without_required(components)
    return found, Document(components, "readOnly" if direction == "request" else "writeOnly")


CHECKED = frozenset({"additionalProperties", "anyOf", "const", "description", "enum", "items", "properties", "type"})
"""Keywords that ``structural`` keeps."""


def structural(schema: Any) -> Schema:
    """Return only the keywords that can be enforced on output.

    Nothing is required: rows may be older than their serializer.
    """
    found: Schema = {}
    for key, value in without_required(schema).items():
        if key == "properties":
            found[key] = {name: structural(part) for name, part in value.items()}
        elif key == "anyOf":
            found[key] = [structural(part) for part in value]
        elif key in CHECKED and (key != "additionalProperties" or isinstance(value, dict)):
            found[key] = structural(value) if isinstance(value, dict) else value
    return found


# Rows


def addresses_rows(field: Any) -> bool:  # noqa: PLR0911 - one line for each kind
    """Return True if a field's value may refer to a different row later, as a slug can and a primary key cannot."""
    if not isinstance(field, Field) or not is_writable(field):
        return False
    match field:
        case ManyRelatedField():
            return addresses_rows(field.child_relation)
        case RelatedField() | BaseSerializer() if is_read_by_the_site(field):
            return True
        case RelatedField():
            return not isinstance(field, PrimaryKeyRelatedField)
        case ListSerializer():
            return addresses_rows(field.child)
        case Serializer():
            return any(map(addresses_rows, field.fields.values()))
    return False


def rows_in(field: Any, value: Any) -> Any:
    """Return the rows that *value* refers to, in its structure, as the field looks them up; None for none."""
    if not addresses_rows(field):
        return None
    match field:
        case ListSerializer() | ManyRelatedField() if isinstance(value, list):
            child = field.child if isinstance(field, ListSerializer) else field.child_relation
            return [rows_in(child, entry) for entry in value]
        case Serializer() if isinstance(value, dict) and not is_read_by_the_site(field):
            return {name: rows_in(child, value[name]) for name, child in field.fields.items() if name in value}
        case RelatedField() | Serializer():
            try:
                found = field.to_internal_value(value)
            except Exception:  # noqa: BLE001 - the call itself reports invalid values
                return None
            within = found if isinstance(found, Mapping) else {"": found}
            return {name: row for name, row in within.items() if isinstance(row, Model) and row.pk is not None}
    return None


# Files


def contains_file(value: Any) -> bool:
    match value:
        case {"filename": str(), "content": str()}:
            return True
        case dict():
            return any(map(contains_file, value.values()))
        case list():
            return any(map(contains_file, value))
    return False


def with_files(field: Any, value: Any, argument: str) -> Any:
    """Return *value* with files in place of the objects that stand for them in a field.

    Raises:
        ArgumentError: a file is invalid. It names the argument that contains it.
    """
    match field, value:
        case Serializer(), dict() if not (field.parent and is_read_by_the_site(field)):
            own = field.fields
            return {name: with_files(own.get(name), entry, argument or name) for name, entry in value.items()}
        case ListSerializer() | serializers.ListField(), list():
            return [with_files(field.child, entry, argument) for entry in value]
        case serializers.DictField(), dict():
            return {name: with_files(field.child, entry, argument) for name, entry in value.items()}
        case serializers.FileField(), dict() if is_upload(field):
            return file_argument(argument, value)
    return value


# Queries


def query_locations(
    schema: Any, model: Any, filters: Collection[str] | None = None
) -> tuple[list[ArgumentLocation], list[str]]:
    """Return the locations of an operation's query parameters, and the filters that are too many to be offered.

    Args:
        filters: offer only these filters of filter sets. None offers all; above ``MANY_FILTERS`` without those made
            from lookups.

    Raises:
        ImproperlyConfigured: a filter does not exist.
    """
    schema = _copy_schema(schema)
    too_many: list[str] = []
    with GENERATOR_STATS.silence():
        found = {parameter["name"]: parameter for parameter in schema._get_parameters()}  # noqa: SLF001
        for backend in schema.get_filter_backends():
            for name, is_one_of_many in _excluded_filters(schema, backend, model, filters):
                found.pop(name, None)
                too_many += [name] * is_one_of_many
            for name, words in _filter_descriptions(backend(), schema.view, model):
                found[name] = {**found[name], "description": words}
    return list(parameter_locations(list(found.values()), Document(schema.components), {"query"})), too_many


def _excluded_filters(
    schema: Any, backend: Any, model: Any, filters: Collection[str] | None
) -> Iterator[tuple[str, bool]]:
    """Yield the filters to leave out; True for those that would do if there were fewer."""
    extension: Any = OpenApiFilterExtension.get_match(backend())
    if extension is None or not hasattr(backend, "get_filterset_class"):
        return
    view, every = schema.view, [parameter["name"] for parameter in extension.get_schema_operation_parameters(schema)]
    if wrong := [name for name in filters or () if name not in every]:
        msg = f"drf_tools: {type(view).__qualname__} has no filter {wrong[0]!r}; it has {', '.join(sorted(every))}."
        raise ImproperlyConfigured(msg)
    if filters is not None:
        yield from ((name, False) for name in every if name not in filters)
    elif filterset := backend().get_filterset_class(view, _rows(model)):
        for name, filter_ in filterset.base_filters.items():
            is_made = LOOKUP_SEP in name and name not in filterset.declared_filters
            if is_made and len(filterset.base_filters) > MANY_FILTERS:
                yield from ((one, True) for one in every if one == name or one.startswith(f"{name}_"))
            model, to = getattr(filter_.extra.get("queryset"), "model", None), filter_.extra.get("to_field_name")
            if model and to and model_column(model, to) is None:  # this filter can never work
                who = type(view).__qualname__
                logger.warning("Filter %r of %s was left out: %s has no field %r.", name, who, model.__name__, to)
                yield name, False


def _filter_descriptions(backend: Any, view: Any, model: Any) -> Iterator[tuple[str, str]]:
    if isinstance(backend, SearchFilter) and (fields := backend.get_search_fields(view, view.request)):
        words = ", ".join(str(field).lstrip("^=@$").replace("__", " ").replace("_", " ") for field in fields)
        yield backend.search_param, f"Search terms, matched against: {words}."
    elif isinstance(backend, OrderingFilter):
        fields = getattr(view, "ordering_fields", backend.ordering_fields)
        if model is not None or not (fields is None or fields == "__all__"):
            valid = backend.get_valid_fields(_rows(model), view, {"request": view.request})
            names = ", ".join(name for name, _ in valid)
            yield (
                backend.ordering_param,
                f"Comma-separated fields to sort by: {names}. Prefix with '-' for descending order.",
            )


def _rows(model: Any) -> Any:
    return None if model is None else model._default_manager.none()  # noqa: SLF001 - Django's documented API


def variable_schema(column: Any) -> Schema:
    return {"type": ["integer", "string"]} if column is None else json_type(column)
