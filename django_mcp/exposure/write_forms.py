"""Rows written through a ``ModelForm``, as if a person had filled it in and left the rest as it was."""

from collections.abc import Container, Iterable, Mapping
from typing import Any

from django import forms
from django.core.exceptions import ObjectDoesNotExist, ValidationError

from django_mcp.exposure.exposed import Exposed
from django_mcp.exposure.viewing import Viewer
from django_mcp.exposure.write_fields import WriteField
from django_mcp.exposure.write_rows import linked, visible
from django_mcp.exposure.write_types import form_value, require_kept
from django_mcp.exposure.write_words import of_field


class Given(forms.Widget):
    """Takes values as they are, under the name of the field, however a page would spread them over inputs."""

    def value_from_datadict(self, data: Any, files: Any, name: str) -> Any:
        """The value, or the file."""
        return files.get(name) if files and name in files else data.get(name)

    def value_omitted_from_data(self, data: Any, files: Any, name: str) -> bool:
        """Whether there is neither."""
        return name not in data and not (files and name in files)


def fill(exposed: Exposed, obj: Any, given: Mapping[str, Any], fields: Mapping[str, WriteField]) -> Any:
    """The form of a declaration, filled in and valid.

    Args:
        exposed: the model.
        obj: a row that is there already, or a new object.
        given: values by name of field; for relations to exposed models the rows.
        fields: all that can be given.

    Raises:
        ValidationError: the form says no.
    """
    form = exposed.resource.form(data={}, instance=obj)
    is_new = obj._state.adding  # noqa: SLF001 - Django's documented API
    data: dict[str, Any] = {}
    for name, field in form.fields.items():
        if name in given:
            data[form.add_prefix(name)] = _as_data(form, name, given[name], fields[name])
        elif is_new and (initial := form.get_initial_for_field(field, name)) is not None:
            data[form.add_prefix(name)] = as_shown(field, initial)
    if not is_new:
        keep(form, obj, given)
    for field in form.fields.values():
        field.widget = Given()
    form.data = data
    if not form.is_valid():
        raise ValidationError(form.errors.as_data())
    for name, value in given.items():
        if _is_read_by_column(form, fields[name]):
            with of_field(name):
                require_kept(fields[name].field, value, form.cleaned_data[name])
    return form


def _is_read_by_column(form: Any, field: WriteField) -> bool:
    return field.is_foreign and field.name not in form.declared_fields


def _as_data(form: Any, name: str, value: Any, field: WriteField) -> Any:
    asked = form.fields[name]
    if _is_read_by_column(form, field):
        with of_field(name):
            return form_value(field.field, asked, value)
    if field.target is not None and value is not None:
        key = asked.to_field_name or "pk"
        return [getattr(row, key) for row in value] if field.is_set else getattr(value, key)
    # JSON is text in forms; everything else they take as it is.
    return asked.prepare_value(value) if isinstance(asked, forms.JSONField) else value


def as_shown(asked: Any, value: Any) -> Any:
    """What a page would show at first; moments as they are, for without their offset they may be another one."""
    return value if isinstance(asked, forms.DateTimeField) else asked.prepare_value(value)


def keep(form: Any, obj: Any, given: Container[str]) -> None:
    """Have the form leave alone what was not given."""
    for name in written_by(form):
        if name in given:
            continue
        field = obj._meta.get_field(name)  # noqa: SLF001 - Django's documented API
        try:
            value = getattr(obj, name)
        except ObjectDoesNotExist:  # it leads to a row that is gone, so there is nothing to show the form
            del form.fields[name]
            continue
        fix(form.fields[name], value.all() if field.many_to_many else value)


def written_by(form: Any) -> list[str]:
    """The model's own fields that a ``ModelForm`` writes, as far as it asks for them."""
    options = form._meta  # noqa: SLF001 - of ModelForm
    model = options.model._meta  # noqa: SLF001 - Django's documented API
    own = [each.name for each in (*model.concrete_fields, *model.many_to_many) if each.name in form.fields]
    return [
        name
        for name in own
        if (options.fields is None or name in options.fields) and name not in (options.exclude or ())
    ]


def fix(asked: Any, value: Any) -> None:
    """Have a field of one form stand for *value*, so that the form's ``clean`` finds in it what the row has."""
    asked.required, asked.disabled = False, True
    asked.clean = lambda *_: value  # to fields of files the one there is is given, too


def save_sets(
    form: Any, obj: Any, given: Mapping[str, Any], fields: Mapping[str, WriteField], viewer: Viewer, *, change: bool
) -> None:
    """Write the sets of rows that were given; what the caller cannot see stays in them."""
    for field in own_sets(obj):
        name = field.name
        if name not in form.cleaned_data:
            continue
        if change and name not in given:
            del form.cleaned_data[name]
        elif change and fields[name].target is not None:
            seen = visible(obj, fields[name], viewer)
            hidden = [key for key in linked(obj, field) if key not in seen]
            form.cleaned_data[name] = [*form.cleaned_data[name], *hidden]
    form.save_m2m()


def own_sets(obj: Any) -> Iterable[Any]:
    """The sets of rows that the model of *obj* declares."""
    sets: Iterable[Any] = obj._meta.many_to_many  # noqa: SLF001 - Django's documented API
    return sets
