"""Which arguments there are for writing: the fields that a declaration names, or those of its form."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django import forms
from django.core.exceptions import FieldDoesNotExist
from django.db import models
from django.utils.translation import gettext as _

from django_mcp.core.signatures import CONTEXT, list_of
from django_mcp.exposure.exposed import Exposed
from django_mcp.exposure.field_types import is_json, is_range
from django_mcp.exposure.write_types import MOST_VALUES, foreign_words, form_type, is_foreign, write_type
from django_mcp.primitives.function import EMPTY, Parameter


class _NotGiven:
    """The default of arguments that may be left out, so that null is something one gives."""

    def __repr__(self) -> str:
        return "not given"


NOT_GIVEN = _NotGiven()


class UnwritableError(ValueError):
    """A field that callers cannot write.

    Attributes:
        text: what is wrong.
        hint: what would be right.
    """

    def __init__(self, text: str, hint: str) -> None:
        super().__init__(text)
        self.text, self.hint = text, hint


@dataclass(frozen=True, slots=True)
class WriteField:
    """One value that callers may give.

    Attributes:
        name: of the field, in the model or the form.
        annotation: the type of its values.
        is_required: a row cannot be created without it.
        words: what it means.
        field: the model's; None where only the form has it.
        target: of a relation: the model it leads to, as it is exposed at the same endpoint. None: it is none, or a
            form's own business.
    """

    name: str
    annotation: Any
    is_required: bool
    words: str | None
    field: Any = None
    target: Any = None

    @property
    def is_foreign(self) -> bool:
        """Whether it is a column whose values its class reads, and nothing of Django's."""
        return self.field is not None and is_foreign(self.field)

    @property
    def is_set(self) -> bool:
        """Whether it is a set of rows."""
        return self.field is not None and bool(self.field.many_to_many)

    def argument(self, exposed: Exposed, *, change: bool) -> str:
        """What it is called for callers: that which says which row to change is called after the field itself."""
        return f"new_{self.name}" if change and self.name == exposed.lookup_name else self.name

    def parameter(self, exposed: Exposed, *, change: bool) -> Parameter:
        """As an argument of a tool that creates rows, or changes one."""
        # What a form asks for besides the row's fields, it asks for each time.
        is_required = self.is_required and (not change or self.field is None)
        default = EMPTY if is_required else NOT_GIVEN
        return Parameter(self.argument(exposed, change=change), self.annotation, default, self.words)


def declared_names(exposed: Exposed) -> list[str]:
    """The fields that callers may write, as far as the declaration says."""
    form = exposed.resource.form
    if form is None:
        return list(exposed.resource.write_fields)
    return [name for name, field in form.base_fields.items() if not field.disabled]


def read_field(exposed: Exposed, name: str) -> WriteField:
    """One of ``declared_names``.

    Raises:
        UnwritableError: it cannot be written.
    """
    return _of_model(exposed, name) if exposed.resource.form is None else _of_form(exposed, name)


def own_fields(exposed: Exposed) -> Mapping[str, Any]:
    """The model's columns and sets of rows, by name; not what other models say of it."""
    return {each.name: each for each in (*exposed.options.concrete_fields, *exposed.options.many_to_many)}


def _of_model(exposed: Exposed, name: str) -> WriteField:
    own = own_fields(exposed)
    if name not in own:
        names = ", ".join(repr(each.name) for each in own.values() if _why_not(each) is None)
        text = _("write_fields: %(model)s has no field %(name)r of its own") % {
            "model": exposed.options.label,
            "name": name,
        }
        raise UnwritableError(text, _("Name some of %(names)s.") % {"names": names})
    field = own[name]
    _require_writable("write_fields", field)
    is_required = not (field.blank or has_default(field))
    if not field.is_relation:
        return _column(field, is_required=is_required)
    target = exposed.on_server(field.related_model)
    if target is None:
        text = _("write_fields: %(name)r leads to %(model)s, which is not registered here") % {
            "name": name,
            "model": field.related_model._meta.label,  # noqa: SLF001
        }
        hint = _(
            "Register that model at the same endpoint, so that it is known which rows there are for whom; or write "
            "through a form."
        )
        raise UnwritableError(text, hint)
    return _relation(field, target, is_required=is_required)


def _column(field: Any, *, is_required: bool) -> WriteField:
    """Return a column that is no relation, with the values that its class takes."""
    words = _words(field, foreign_words(field) if is_foreign(field) else "")
    return WriteField(field.name, _nullable(write_type(field), field), is_required, words, field)


def has_default(field: Any) -> bool:
    """Whether a column has a value where none is given."""
    return bool(field.has_default()) or getattr(field, "db_default", models.NOT_PROVIDED) is not models.NOT_PROVIDED


def _require_writable(attribute: str, field: Any) -> None:
    if (why := _why_not(field)) is not None:
        text = _("%(attribute)s: %(field)r %(why)s, so it cannot be written") % {
            "attribute": attribute,
            "field": field.name,
            "why": why,
        }
        raise UnwritableError(text, _("Take it out; what callers do not give may be set in save_model."))


def _why_not(field: Any) -> str | None:
    if field.primary_key:
        return _("is the primary key, which says which row it is")
    if isinstance(field, models.FileField | models.BinaryField):
        return _("holds a file or bytes")
    if is_range(field):
        return _("is a range")
    if not field.editable:
        return _("is not editable")
    if field.many_to_many and not field.remote_field.through._meta.auto_created:  # noqa: SLF001 - as the admin does
        return _("is a set whose links are a model of their own")
    return None


def _relation(field: Any, target: Exposed, *, is_required: bool) -> WriteField:
    """A relation, given as what addresses the row it leads to."""
    try:
        one = write_type(target.lookup)
    except FieldDoesNotExist:
        text = _("%(field)r leads to %(model)s, whose lookup_field is none") % {
            "field": field.name,
            "model": target.options.label,
        }
        raise UnwritableError(text, _("Correct lookup_field of %(target)r.") % {"target": target.resource}) from None
    how = f"by {'primary key' if target.lookup_name == 'pk' else target.lookup_name}"
    if field.many_to_many:
        # Those the caller cannot see stay: for the caller they do not exist.
        words = _words(field, f"Which {target.title.lower()}, {how}, in place of those there are.")
        many = list_of(one, least=0 if field.blank else 1, most=MOST_VALUES)
        return WriteField(field.name, many, is_required, words, field, target)
    one = _nullable(one, field)
    return WriteField(field.name, one, is_required, _words(field, f"Which {target.one}, {how}."), field, target)


def _nullable(annotation: Any, field: Any) -> Any:
    # What must not be blank must not be null either, for full_clean.
    return annotation | None if field.null and field.blank and not is_json(field) else annotation


def _words(field: Any, more: str = "") -> str | None:
    name, plain = str(field.verbose_name), field.name.replace("_", " ")
    label = "" if name.lower() == plain.lower() else f"{name[:1].upper()}{name[1:]}."
    return " ".join(filter(None, [label, more, str(field.help_text or "")])) or None


# Forms


def _of_form(exposed: Exposed, name: str) -> WriteField:
    form = exposed.resource.form
    asked = form.base_fields[name]
    field = own_fields(exposed).get(name) if name in (form._meta.fields or ()) else None  # noqa: SLF001 - of ModelForm
    if field is not None:
        _require_writable("form", field)
    is_required = asked.required and asked.initial is None and (field is None or not has_default(field))
    words = " ".join(filter(None, [str(asked.label or ""), str(asked.help_text or "")])) or None
    if field is not None and field.is_relation:
        return _relation_of_form(exposed, asked, field, is_required=is_required)
    if field is not None and name not in form.declared_fields:
        return _column(field, is_required=is_required)
    annotation = form_type(asked)
    if annotation is None:
        text = _("form: %(name)r is a %(kind)s, for which JSON has no value") % {
            "name": name,
            "kind": type(asked).__name__,
        }
        raise UnwritableError(text, _("Use a form of its own for this endpoint, without it."))
    return WriteField(name, annotation if field is None else _nullable(annotation, field), is_required, words, field)


def _relation_of_form(exposed: Exposed, asked: Any, field: Any, *, is_required: bool) -> WriteField:
    if not isinstance(asked, forms.ModelChoiceField):
        text = _("form: %(field)r is a relation, and %(kind)s chooses no row") % {
            "field": field.name,
            "kind": type(asked).__name__,
        }
        raise UnwritableError(text, _("Let the form have a ModelChoiceField there, or no field."))
    target = exposed.on_server(field.related_model)
    if target is not None:
        return _relation(field, target, is_required=is_required)
    options = field.related_model._meta  # noqa: SLF001 - Django's documented API
    one = write_type(options.get_field(asked.to_field_name) if asked.to_field_name else options.pk)
    if field.many_to_many:
        return WriteField(field.name, list_of(one, most=MOST_VALUES), is_required, _words(field), field)
    return WriteField(field.name, _nullable(one, field), is_required, _words(field), field)


# Problems


def field_problems(exposed: Exposed) -> Iterator[tuple[str, str]]:
    """What is wrong with the fields that callers are to write, and what would be right."""
    found: list[WriteField] = []
    for name in declared_names(exposed):
        try:
            found.append(read_field(exposed, name))
        except UnwritableError as error:
            yield error.text, error.hint
    yield from _clashes(exposed, found)


def _clashes(exposed: Exposed, found: Iterable[WriteField]) -> Iterator[tuple[str, str]]:
    names = [CONTEXT, exposed.lookup_name, *(each.argument(exposed, change=True) for each in found)]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield _("two arguments would be called %(name)r") % {"name": name}, _("Take one of the fields out.")
