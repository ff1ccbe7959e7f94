"""Sets of forms: an array of objects, each of which is validated by a form, and all of them by the set."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from django import forms
from django.forms.formsets import DELETION_FIELD_NAME, ORDERING_FIELD_NAME
from django.utils.text import slugify

from django_mcp.adapters.form_filling import Data, fill, in_words, problems, put, unknown
from django_mcp.adapters.form_rows import Choice, as_sent, choices_of, chosen, declared, narrow
from django_mcp.adapters.form_schema import asked, form_schema
from django_mcp.adapters.form_sources import Filled, unbound, words_of
from django_mcp.core.context import Context
from django_mcp.core.request import require_same
from django_mcp.model_resources.access import Viewer
from django_mcp.model_resources.schema import MOST_VALUES
from django_mcp.primitives.schema import ArgumentError
from django_mcp.primitives.validation_errors import abridged, kind_name, missing_argument

_COUNTS = ("TOTAL_FORMS", "INITIAL_FORMS", "MIN_NUM_FORMS", "MAX_NUM_FORMS")


class FormSetSource:
    """A class of sets of forms. What it writes are new rows; those there are stay as they are.

    Args:
        formset_class: as ``formset_factory`` and its kin make it.
        form_kwargs: takes the context, gives further arguments of each form.
        most_bytes: how large a file may be.
        argument: what the array is called; by default after the model or the form.
        label: for messages to the site's owner.

    Attributes:
        model: the parent of the rows of an inline set, or None.
    """

    def __init__(
        self,
        formset_class: Any,
        form_kwargs: Callable[[Context], Mapping[str, Any]] | None,
        most_bytes: int,
        argument: str | None,
        label: str,
    ) -> None:
        self._class, self._kwargs, self._most_bytes = formset_class, form_kwargs, most_bytes
        self._is_inline = issubclass(formset_class, forms.BaseInlineFormSet)
        self.model = formset_class.fk.remote_field.model if self._is_inline else None
        self.argument = argument or _plural(formset_class)
        self._label = label
        self._choices: dict[Any, Mapping[str, Choice]] = {}
        self._least = formset_class.min_num if formset_class.validate_min else 0
        most = formset_class.max_num if formset_class.validate_max else formset_class.absolute_max
        self._most = min(most, MOST_VALUES)

    def schema(self, server: Any) -> dict[str, Any]:
        """Return the JSON Schema of its arguments at an endpoint. It makes a form, which may query the database.

        Raises:
            ImproperlyConfigured: its forms cannot be made.
            DatabaseError, InterfaceError: they cannot be made without the database.
        """
        form = unbound(self._class.form, self._label, has_arguments=self._kwargs is not None)
        self._class().add_fields(form, None)
        choices = self._choices[server] = choices_of(form, server)
        item = form_schema(form, self._names(form), self._most_bytes, declared(choices))
        array = {"type": "array", "items": item, "minItems": self._least, "maxItems": self._most}
        schema: dict[str, Any] = {"type": "object", "properties": {self.argument: array}}
        return {**schema, "required": [self.argument], "additionalProperties": False}

    def _names(self, form: Any) -> list[str]:
        """The fields of a form that a caller gives, without those the set adds to tell its forms apart."""
        added = {DELETION_FIELD_NAME, ORDERING_FIELD_NAME}
        if issubclass(self._class, forms.BaseModelFormSet):
            added.add(self._class.model._meta.pk.name)  # noqa: SLF001 - Django's documented API
        if self._is_inline:
            added.add(self._class.fk.name)
        return [name for name in asked(form) if name not in added or name in form.base_fields]

    def bound(self, ctx: Context, given: Mapping[str, Any], obj: Any) -> Any:
        """The set of forms, filled in and valid.

        Raises:
            ArgumentError: the arguments do not fit, or a form or the set says no.
            ToolError: the call was approved for other rows than it chooses now.
        """
        items: Any = given.get(self.argument)
        found = [*unknown(given, [self.argument]), *self._misfits(items, self.argument in given)]
        if self._fits(items):
            formset = self._filled(ctx, items, obj)
            found += self._problems(formset, items)
        if found:
            raise ArgumentError(abridged(found))
        return formset

    def _misfits(self, items: Any, is_given: bool) -> Iterator[str]:
        if not is_given:
            yield missing_argument([self.argument])
        elif not isinstance(items, list):
            yield f"Argument {self.argument!r} must be an array of objects, not {kind_name(items)}."
        elif len(items) > self._most:
            yield f"Argument {self.argument!r} must have at most {self._most} entries, not {len(items)}."
        else:
            for place, each in enumerate(items):
                if not isinstance(each, dict):
                    yield f"Argument {self._place(place)!r} must be an object, not {kind_name(each)}."

    def _fits(self, items: Any) -> bool:
        return isinstance(items, list) and len(items) <= self._most and all(isinstance(each, dict) for each in items)

    def _own(self, form: Any, item: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in item.items() if name in self._names(form)}

    def _place(self, place: int) -> str:
        return f"{self.argument}[{place}]"

    def _made(self, ctx: Context, items: Sequence[Mapping[str, Any]], obj: Any) -> Any:
        prefix = self._class.get_default_prefix()
        counts = (len(items), 0, self._class.min_num, self._class.max_num)
        viewer, choices = Viewer(ctx), self._choices_at(ctx.server)
        data: Data = Data({f"{prefix}-{name}": [count] for name, count in zip(_COUNTS, counts, strict=True)})
        for place, item in enumerate(items):
            for name, value in as_sent(choices, item, viewer).items():
                put(data, f"{prefix}-{place}-{name}", value)
        options: dict[str, Any] = {} if obj is None else {"instance": obj}
        if self._kwargs is not None:
            options["form_kwargs"] = dict(self._kwargs(ctx))
        return self._class(data=data, files=Data(), prefix=prefix, **options)

    def _filled(self, ctx: Context, items: Sequence[Mapping[str, Any]], obj: Any) -> Any:
        formset, viewer = self._made(ctx, items, obj), Viewer(ctx)
        chosen_rows: list[dict[str, Any]] = []
        for place, (form, item) in enumerate(zip(formset.forms, items, strict=True)):
            own = self._own(form, item)
            for name in item.keys() - own.keys():  # which the fields of the set would read, and tell of rows
                formset.data.pop(f"{formset.prefix}-{place}-{name}", None)
            taken, rows = narrow(form, own, viewer)
            chosen_rows.append(rows)
            fill(form, taken, self._most_bytes)
            form.empty_permitted = False
            # What was given counts, even where it is what a page would show at first.
            form.has_changed = lambda: True
            if ORDERING_FIELD_NAME in form.fields:
                form.data[form.add_prefix(ORDERING_FIELD_NAME)] = place + 1
        if any(chosen_rows):
            require_same(ctx, self.argument, chosen_rows)
        return formset

    def _problems(self, formset: Any, items: Sequence[Mapping[str, Any]]) -> Iterable[str]:
        for place, (form, item) in enumerate(zip(formset.forms, items, strict=True)):
            names = self._names(form)
            yield from unknown(item, names, self._place(place))
            yield from problems(form, item, names, self._place(place))
        yield from (in_words(error, self.argument) for error in formset.non_form_errors().as_data())

    def _choices_at(self, server: Any) -> Mapping[str, Choice]:
        if server not in self._choices:
            self.schema(server)
        return self._choices[server]

    def chosen(self, ctx: Context, given: Mapping[str, Any], obj: Any) -> dict[str, Any]:
        """Return the rows that arguments address which may come to address others, by argument.

        Args:
            ctx: the call.
            given: the arguments.
            obj: the parent of the rows of an inline set, or None.
        """
        items: Any = given.get(self.argument)
        if not self._fits(items):
            return {}
        forms_and_items = zip(self._made(ctx, items, obj).forms, items, strict=True)
        found = [chosen(form, self._own(form, item), Viewer(ctx)) for form, item in forms_and_items]
        return {self.argument: found} if any(found) else {}

    def forms(self, formset: Any) -> list[forms.BaseForm]:
        """The forms that were filled in."""
        found: list[forms.BaseForm] = formset.forms
        return found

    def filled(self, formset: Any, given: Mapping[str, Any]) -> Filled:
        """The same, each with its arguments."""
        return list(zip(self.forms(formset), given[self.argument], strict=False))


def _plural(formset_class: Any) -> str:
    model = getattr(formset_class, "model", None)
    words = model._meta.verbose_name_plural if model is not None else f"{words_of(formset_class.form)}s"  # noqa: SLF001
    return slugify(words).replace("-", "_") or "items"
