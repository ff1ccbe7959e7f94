"""A model as it is exposed at an endpoint: its declaration, read once."""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import quote

from django.core.exceptions import ValidationError
from django.utils.text import capfirst, slugify

from django_mcp.core.principal import Principal
from django_mcp.core.registry import MCPServer
from django_mcp.core.scopes import covers
from django_mcp.exposure.aggregates import Dimension, Measure
from django_mcp.exposure.columns import Column
from django_mcp.exposure.declaration import ModelResource
from django_mcp.exposure.field_types import to_json_value, value_field
from django_mcp.exposure.filters import Filter
from django_mcp.exposure.ordering import Key
from django_mcp.exposure.searching import SearchField
from django_mcp.primitives.tool import ToolError
from django_mcp.primitives.translated import untranslated

TITLE_CHARACTERS = 120
LARGEST_INTEGER = 2**63 - 1
"""That a column can hold."""


@dataclass(frozen=True, slots=True)
class Content:
    """A field that is a resource of its own.

    Attributes:
        field: a text, file or binary field of the model.
        mime_type: of what it holds; of a file its name tells more.
    """

    field: Any
    mime_type: str


def _identifier(words: Any) -> str:
    """Return a name's own words as an identifier; nothing where they are not of letters that every client takes.

    Translations would give a tool another name in each language, and policies, approvals and logs go by it.
    """
    words = untranslated(words)
    return slugify(words).replace("-", "_") if words.isascii() else ""


class Exposed:
    """A model at an endpoint.

    ``reading.compile`` fills it in once all models that are exposed there are known.

    Attributes:
        resource: the declaration.
        model: the model.
        server: the endpoint.
        name, plural: what tools are called after.
        titles: its rows, for display; may be a lazy translation.
        base: URI of the resource that lists rows.
        columns: what is shown of a row.
        list_columns: what is shown of each of many.
        contents: fields that are resources of their own.
        search_fields, filters: what may be compared.
        sortings: what callers may sort by, each with its keys; ``""`` is the order where they do not say.
        problems: what is wrong with the declaration; None as long as nobody looked.
        measures, dimensions: what may be added up, by what.
    """

    def __init__(self, resource: ModelResource) -> None:
        self.resource = resource
        self.model = resource.model
        self.server = resource.server
        self.options = resource.options
        self.name = resource.name or _identifier(self.options.verbose_name) or str(self.options.model_name)
        self.plural = resource.plural or _identifier(self.options.verbose_name_plural) or f"{self.name}s"
        self.titles: Any = resource.title or capfirst(self.options.verbose_name_plural)
        scheme = self.options.app_label.replace("_", "-")
        self.base = (resource.uri or f"{scheme}://{self.options.model_name}").rstrip("/")
        self.problems: list[Any] | None = None
        self.columns: tuple[Column, ...] = ()
        self.list_columns: tuple[Column, ...] = ()
        self.contents: Mapping[str, Content] = {}
        self.search_fields: Sequence[SearchField] = ()
        self.filters: Sequence[Filter] = ()
        self.sortings: Mapping[str, Sequence[Key]] = {}
        self.measures: Mapping[str, Measure] = {}
        self.dimensions: Mapping[str, Dimension] = {}

    def __repr__(self) -> str:
        return f"<Exposed {self.options.label} on {self.server.name!r}>"

    @property
    def title(self) -> str:
        """Its rows, for display, in the current language."""
        return str(self.titles)

    @property
    def one(self) -> str:
        """What one row is called, in the current language."""
        return str(self.options.verbose_name)

    @property
    def is_sound(self) -> bool:
        """Whether nothing is wrong with it, so that it is served."""
        return self.problems == []

    def on_server(self, model: Any) -> "Exposed | None":
        """Another model as it is exposed at the same endpoint, or None."""
        return self.server.exposed.get(model)

    def rules_of(self, model: Any) -> "Exposed | None":
        """Return what says which rows of another model exist for whom: its declaration at this endpoint, or, where the
        endpoint selects from another one and left it out, at that one.
        """
        return rules_at(self.server, model)

    @property
    def lookup(self) -> Any:
        """The field that addresses a row."""
        if self.resource.lookup_field == "pk":
            return self.options.pk
        return self.options.get_field(self.resource.lookup_field)

    @property
    def lookup_name(self) -> str:
        """How it is called in URIs and arguments."""
        return self.resource.lookup_field

    @property
    def description(self) -> str:
        """What the model is, for whoever reads it."""
        written = self.resource.description or type(self.resource).__doc__
        return inspect.cleandoc(written) if written else f"{self.title}."

    def is_for(self, principal: Principal) -> bool:
        """Whether the caller may view rows of the model at all: by scopes and by permission."""
        return covers(principal.scopes, frozenset(self.resource.scopes)) and self.resource.has_view_permission(
            principal.user
        )

    # Rows

    def missing(self, value: object) -> ToolError:
        """The error for a row that does not exist for the caller: the same whether it exists for others or not."""
        return ToolError(f"There is no {self.one} with {self.lookup_name} {str(value)[:80]!r}.")

    def uri_of(self, obj: Any) -> str:
        """The URI of a row."""
        return f"{self.base}/{quote(str(getattr(obj, self.lookup.attname)), safe='')}"

    def title_of(self, obj: Any) -> str:
        """What a row is called, by the field that was declared for it; never ``str(obj)``, which may say anything."""
        named = getattr(obj, self.resource.title_field) if self.resource.title_field else None
        return str(to_json_value(named) or getattr(obj, self.lookup.attname))[:TITLE_CHARACTERS]

    def address(self, value: str) -> Any:
        """What the lookup field of the row that *value* addresses holds; None where it can address none."""
        return address_in(self.lookup, value)


def rules_at(server: MCPServer | None, model: Any) -> Exposed | None:
    """Return what says which rows of a model exist for whom, and who may write them: its declaration at *server* or,
    where *server* selects from another endpoint and left it out, at that one. None where there is none.
    """
    while server is not None:
        if (found := server.exposed.get(model)) is not None:
            return cast("Exposed", found)
        server = server.source
    return None


def address_in(field: Any, value: object) -> Any:
    """*value* as the column *field* holds it; None where it can hold no such thing."""
    try:
        found = value_field(field).to_python(value)
    except (ValidationError, ValueError, TypeError, OverflowError):
        return None
    is_none = isinstance(found, int) and abs(found) > LARGEST_INTEGER  # which SQLite does not even compare
    return None if is_none or "\0" in str(found) else found
