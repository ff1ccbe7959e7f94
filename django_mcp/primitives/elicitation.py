"""Forms a person fills in at their client (2026-07-28, Elicitation, Form Mode)."""

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NotRequired, Protocol, Required

from django import forms
from django.core.exceptions import ImproperlyConfigured
from pydantic import BaseModel, TypeAdapter, ValidationError

from django_mcp.primitives.errors import FormError as FormError  # noqa: PLC0414 - where it always was
from django_mcp.primitives.form_fields import DjangoForm
from django_mcp.primitives.form_models import ModelForm
from django_mcp.primitives.form_shapes import answer_type, check_property, sentences
from django_mcp.primitives.typed import typed_dict


class _Form(Protocol):
    @property
    def schema(self) -> dict[str, Any]: ...

    @property
    def names(self) -> set[str]: ...

    def read(self, content: Mapping[str, Any]) -> tuple[Any, list[str]]: ...


class FormSchema:
    """A form, and how to read it once it is filled in.

    Args:
        given: a pydantic model class; a Django ``Form`` class; or a JSON Schema of the shape that the specification
            allows, which is sent as it stands.
        label: names the form in errors.

    Raises:
        ImproperlyConfigured: it asks for something no form can ask for, or for a secret.
    """

    def __init__(self, given: Any, label: str = "elicitation") -> None:
        self._form = _form(given, label)

    @property
    def schema(self) -> dict[str, Any]:
        """The ``requestedSchema``. That of a Django form may read choices from the database."""
        return self._form.schema

    def validate(self, content: Mapping[str, Any]) -> Any:
        """What was filled in: the model's instance, the form's ``cleaned_data``, or a dict.

        Fields nobody asked for are ignored, and null is no answer.

        Raises:
            FormError: it does not fit.
        """
        names = self._form.names
        given = {name: value for name, value in content.items() if name in names and value is not None}
        value, problems = self._form.read(given)
        if problems:
            raise FormError(problems)
        return value


def form_schema(given: Any, label: str = "elicitation") -> FormSchema:
    """The ``FormSchema`` of *given*, made once: a tool that asks is run several times.

    Raises:
        ImproperlyConfigured: see ``FormSchema``.
    """
    if isinstance(given, Mapping):
        return _of_text(_text(given, label), label)
    return _of_class(given, label) if isinstance(given, type) else FormSchema(given, label)


class _WrittenForm:
    """A form somebody wrote out as JSON Schema."""

    def __init__(self, schema: dict[str, Any], label: str) -> None:
        _check_top(schema, label)
        self.schema, required = schema, schema.get("required", [])
        self.names = set(schema["properties"])
        fields: dict[str, Any] = {}
        for name, each in schema["properties"].items():
            check_property(name, each, label)
            kind = answer_type(each)
            fields[name] = Required[kind] if name in required else NotRequired[kind]
        self._adapter: TypeAdapter[dict[str, Any]] = TypeAdapter(typed_dict("content", fields))

    def read(self, content: Mapping[str, Any]) -> tuple[dict[str, Any] | None, list[str]]:
        """What was filled in, or what is wrong with it."""
        try:
            return self._adapter.validate_python(content), []
        except ValidationError as error:
            return None, sentences(error)


def _check_top(schema: Mapping[str, Any], label: str) -> None:
    properties, required = schema.get("properties"), schema.get("required", [])
    if schema.get("type") != "object" or not isinstance(properties, dict):
        msg = f'{label}: the schema of a form has "type": "object" and "properties", an object.'
        raise ImproperlyConfigured(msg)
    if unknown := schema.keys() - {"$schema", "type", "properties", "required"}:
        msg = f"{label}: a form has no {', '.join(sorted(unknown))}, only type, properties and required."
        raise ImproperlyConfigured(msg)
    if not isinstance(required, list) or not all(isinstance(name, str) and name in properties for name in required):
        msg = f"{label}: required must be a list of names that are in properties, not {required!r}."
        raise ImproperlyConfigured(msg)


def _form(given: Any, label: str) -> _Form:
    if isinstance(given, Mapping):
        return _WrittenForm(json.loads(_text(given, label)), label)
    if isinstance(given, type) and issubclass(given, BaseModel):
        return ModelForm(given, label)
    if isinstance(given, type) and issubclass(given, forms.BaseForm):
        return DjangoForm(given, label)
    msg = f"{label}: a form is a pydantic model class, a Django Form class or a JSON Schema, not {given!r}."
    raise ImproperlyConfigured(msg)


def _text(given: Mapping[str, Any], label: str) -> str:
    try:
        return json.dumps(given, allow_nan=False)
    except (TypeError, ValueError) as error:
        msg = f"{label}: the schema of a form must be JSON: {error}."
        raise ImproperlyConfigured(msg) from error


@lru_cache(maxsize=512)
def _of_class(given: type, label: str) -> FormSchema:
    return FormSchema(given, label)


@lru_cache(maxsize=512)
def _of_text(given: str, label: str) -> FormSchema:
    return FormSchema(json.loads(given), label)
