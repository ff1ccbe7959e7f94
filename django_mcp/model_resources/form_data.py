"""Values of a call in a Django form: binding them, keeping those of the row, cleaning single fields."""

from collections.abc import Container, Mapping
from typing import Any, NoReturn

from django import forms
from django.core.exceptions import ObjectDoesNotExist, ValidationError
from django.core.files.uploadedfile import UploadedFile
from django.db import models
from django.db.models.expressions import DatabaseDefault
from django.utils.datastructures import MultiValueDict

from django_mcp.model_resources.form_schema import editable_fields, foreign_column, initial_value, read_value
from django_mcp.model_resources.schema import form_value, require_storable

Data = MultiValueDict[str, Any]


def set_form_data(data: Data, key: str, value: Any) -> None:
    """Set a JSON value as a browser would send it; a list becomes several values."""
    if isinstance(value, list):
        data.setlist(key, value)
    else:
        data[key] = value


def bind_values(form: Any, given: Mapping[str, Any], most_bytes: int) -> None:
    """Bind the values in *given* to a bound form that is not validated yet.

    Fields that are not given get their initial values, as on a page. Fields that must not change are already disabled.
    A value of a wrong type becomes an error of its field.

    Args:
        given: values by field name; null is an empty input.
        most_bytes: maximum size of a file.
    """
    for name, field in editable_fields(form).items():
        key = form.add_prefix(name)
        if (column := foreign_column(form, name)) is not None:
            if name in given:
                form.data[key] = given[name]
            _read_by_column(field, column, given, form.get_initial_for_field(field, name))
            continue
        if name in given:
            value = _read(field, given[name], most_bytes)
        else:
            value = _at_first(form, name, field)
            if value is None:
                continue
        if isinstance(value, UploadedFile):
            form.files[key] = value
        elif _takes_values(field.widget) or not _is_readable(form, name, field):
            is_clearing = (
                value is None and isinstance(field, forms.FileField) and form.get_initial_for_field(field, name)
            )
            form.data[key] = False if is_clearing else value  # as the "clear" checkbox of a file does
    for name, field in form.fields.items():
        field.show_hidden_initial = False  # there is no earlier page to compare with
        # A widget of another package may fail without its inputs, which changed_data asks of disabled fields too.
        if _takes_values(field.widget) or field.disabled or not _is_readable(form, name, field):
            kind = getattr(field.widget, "input_type", None)
            field.widget = RawValueWidget(field.widget)
            field.widget.input_type = kind  # rendering a form leaves passwords out


def _at_first(form: Any, name: str, field: forms.Field) -> Any:
    """Return what a page would show initially, or None for nothing or a database default."""
    initial, row = initial_value(form, name), getattr(form, "instance", None)
    for value in (initial, vars(row).get(name) if isinstance(row, models.Model) else None):
        if isinstance(value, DatabaseDefault):
            fix_value(field, value)
            return None
    return None if initial is None or isinstance(field, forms.FileField) else _initial(field, initial)


def _read_by_column(field: Any, column: Any, given: Mapping[str, Any], initial: Any) -> None:
    # Widgets of packages expect inputs that a call does not have.
    clean, field.widget = field.clean, RawValueWidget(field.widget)
    value, is_given = given.get(column.name), column.name in given
    field.has_changed = lambda *_: is_given  # Wagtail's fields compare values of their own
    if value is None and is_given and column.null:
        field.required, field.clean = False, lambda *_: None
        return
    try:
        require_storable(value)
        taken = initial if not is_given and initial is not None else form_value(column, field, value)
    except ValidationError as error:
        fail_with(field, error)
    except ValueError as error:
        fail_with(field, ValidationError(f"{error}.", code="kind"))
    else:
        # CharField would make it text; nothing is an empty text, as from a page.
        is_value = isinstance(field, forms.CharField) and taken is not None and not isinstance(taken, str)
        field.clean = lambda *_: taken if is_value else clean(taken)


def _read(field: forms.Field, value: Any, most_bytes: int) -> Any:
    try:
        return read_value(field, value, most_bytes)
    except ValidationError as error:
        fail_with(field, error)
        return None


def may_prefill(field: Any) -> bool:
    # Not for files and passwords.
    return not isinstance(field, forms.FileField) and getattr(field.widget, "input_type", None) != "password"


def fail_with(field: forms.Field, error: ValidationError) -> None:
    def clean(*_: Any) -> NoReturn:
        raise error

    field.clean = clean  # type: ignore[assignment, method-assign]


def _initial(field: Any, initial: Any) -> Any:
    if isinstance(field, forms.MultiValueField) and not isinstance(initial, list | tuple):
        return field.widget.decompress(initial)
    return prepare_initial(field, initial)


def _takes_values(widget: forms.Widget) -> bool:
    # A custom widget may convert values to something that its field expects. One of several inputs makes the value of
    # its field from them, and a call has that value.
    is_of_django = type(widget).value_from_datadict.__module__.startswith("django.")
    return is_of_django or isinstance(widget, forms.MultiWidget)


def _is_readable(form: Any, name: str, field: forms.Field) -> bool:
    try:
        field.widget.value_from_datadict(form.data, form.files, form.add_prefix(name))
    except Exception:  # noqa: BLE001 - such as None.strip() or int(None)
        return False
    return True


class RawValueWidget(forms.Widget):
    """A widget that takes a value as it is, not spread over the inputs of a page.

    Args:
        own: the widget that it replaces, which the field may still ask: fields of translated texts read its languages.
    """

    def __init__(self, own: forms.Widget) -> None:
        super().__init__()
        self._own = own

    def __getattr__(self, name: str) -> Any:
        if name == "_own":  # of a copy that is being made
            raise AttributeError(name)
        return getattr(self._own, name)

    def value_from_datadict(self, data: Any, files: Any, name: str) -> Any:
        return files.get(name) if files and name in files else data.get(name)

    def value_omitted_from_data(self, data: Any, files: Any, name: str) -> bool:
        return name not in data and not (files and name in files)


def prepare_initial(field: Any, value: Any) -> Any:
    # The text of a datetime has no offset.
    return value if isinstance(field, forms.DateTimeField) else field.prepare_value(value)


def preserve_row_values(form: Any, obj: Any, given: Container[str]) -> None:
    for name in written_model_fields(form):
        if name in given:
            continue
        field = obj._meta.get_field(name)  # noqa: SLF001 - Django's documented API
        try:
            value = getattr(obj, name)
        except ObjectDoesNotExist:  # its related row is gone, so the form cannot show it
            del form.fields[name]
            continue
        fix_value(form.fields[name], value.all() if field.many_to_many else value)


def written_model_fields(form: Any) -> list[str]:
    options = form._meta  # noqa: SLF001 - of ModelForm
    model = options.model._meta  # noqa: SLF001 - Django's documented API
    own = [field.name for field in (*model.concrete_fields, *model.many_to_many) if field.name in form.fields]
    return [
        name
        for name in own
        if (options.fields is None or name in options.fields) and name not in (options.exclude or ())
    ]


def fix_value(field: Any, value: Any) -> None:
    # The form's clean then finds it.
    field.required, field.disabled = False, True
    field.clean = lambda *_: value  # a FileField passes its initial value too


def clean_fields(form: Any, given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, ValidationError]]:
    """Return the values of given fields as their fields clean them, or else their errors. Files are left out.

    The form as a whole is not validated.
    """
    values, errors = {}, {}
    for name, field in editable_fields(form).items():
        if given.get(name) is not None and not isinstance(field, forms.FileField):
            try:
                values[name] = field.clean(form[name].data)
            except ValidationError as error:
                errors[name] = error
    return values, errors


def is_modelcluster_set(field: Any) -> bool:
    # Its rows are stored when the row that has them is saved.
    return bool(getattr(field, "_need_commit_after_assignment", False))


def assign_modelcluster_sets(form: Any) -> None:
    """Put such sets on a form's row, which is saved next, as modelcluster's ``ClusterForm`` does."""
    for field in form.instance._meta.get_fields():  # noqa: SLF001 - Django's documented API
        if is_modelcluster_set(field) and field.name in form.cleaned_data:
            field.save_form_data(form.instance, form.cleaned_data[field.name])


def commit_modelcluster_sets(obj: Any) -> None:
    """Store such sets of a saved row, which ``save_m2m`` of a plain ``ModelForm`` leaves in memory."""
    for field in obj._meta.get_fields():  # noqa: SLF001 - Django's documented API
        if is_modelcluster_set(field) and obj.pk is not None:
            getattr(obj, field.name).commit()
