"""What tools, resources, templates and prompts have in common."""

import inspect
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.utils.functional import Promise, keep_lazy_text
from pydantic_core import PydanticSerializationError, to_json

from django_mcp.primitives.functions import Function, read_function
from django_mcp.primitives.options import check_options
from django_mcp.primitives.translated import is_translated
from django_mcp.protocol.content import Icon

MOST_CHARACTERS = 64
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")

_cleaned = keep_lazy_text(inspect.cleandoc)
TAGS_IN_META = "fastmcp"
"""Under which key of ``_meta`` tags are told: the one where those clients look that know of tags at all."""


class Primitive:
    """A function under a name, with the words clients show for it.

    Args:
        call: the function.
        context_type: of the parameter that is the context.
        name: by default the function's.
        title, description, icons, meta: for its definition.
        permission: like ``"library.change_book"``; several in a list.
        groups: names of Django groups.
        scopes: OAuth scopes.
        visible: takes the ``Context`` of a call or list, tells whether it exists for the caller; may be a query.
        tags: words it may be chosen by.
        namespace: goes before its name, with an underscore between, and is a tag.
        unknown: options that there are not.

    Attributes:
        key: what it is looked up by: a name, or a URI.
        definition: its entry in a list, as a JSON object; title and descriptions in it may be lazy translations.
        permissions: what the caller's user must all have.
        groups: of which the caller's user must be in one, where there are any.
        scopes: OAuth scopes the caller's credential must have.
        visible: the predicate, or None.
        is_guarded: it has any of them.
        tags: those it was given, and its namespaces.
        position: its place in lists; set at registration.
        is_generated: it was made for a model, and is made anew when another model is registered.
        extension: the ``Extension`` of the protocol that it brings to its endpoint; None for most.
        speaks: it can say or ask something while it runs, or be stopped where it waits.
        is_late: ``find_failure`` may ask the database, so that no event loop does it.
    """

    kind = "primitive"
    is_late = False

    def __init__(
        self,
        call: Callable[..., Any],
        *,
        context_type: type,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        icons: Sequence[Icon] = (),
        permission: str | Sequence[str] | None = None,
        groups: Sequence[str] = (),
        scopes: Sequence[str] = (),
        visible: Callable[[Any], bool] | None = None,
        tags: Collection[str] = (),
        namespace: str | None = None,
        meta: Mapping[str, Any] | None = None,
        **unknown: Any,
    ) -> None:
        self.function: Function = read_function(call, context_type)
        self.speaks = self.function.is_async or self.function.context is not None
        self.name = _joined(namespace, name or self.function.name)
        self.key = self.name
        if unknown:
            check_options(self.label, unknown, *(each.__init__ for each in type(self).__mro__))  # type: ignore[misc]
        self.description = _cleaned(description) if description else self.function.description
        self.permissions = self._read_permissions(permission)
        self.groups = frozenset(self._listed("groups", groups))
        self.scopes = frozenset(self._listed("scopes", scopes))
        if visible is not None and not callable(visible):
            msg = f"{self.label}: visible must be a function, like lambda ctx: ctx.user.is_staff, not {visible!r}."
            raise ImproperlyConfigured(msg)
        if visible is not None and inspect.iscoroutinefunction(visible):
            msg = f"{self.label}: visible must be a plain function; it is run in a worker thread, so it may query."
            raise ImproperlyConfigured(msg)
        self.visible = visible
        self.is_guarded = self.asks_user or bool(scopes)
        self.is_generated = False
        self.position = -1
        self.extension: Any = None
        self.definition: dict[str, Any] = {"name": self.name}
        if title is not None:
            self.definition["title"] = title
        if self.description:
            self.definition["description"] = self.description
        if icons:
            self.definition["icons"] = [icon.to_wire() for icon in icons]
        if meta is not None:
            self.definition["_meta"] = self._read_meta(meta)
        self.tags: frozenset[str] = frozenset()
        self.add_tags({*self._listed("tags", tags), *([] if namespace is None else [namespace])})

    def _read_permissions(self, permission: str | Sequence[str] | None) -> tuple[str, ...]:
        permissions = () if permission is None else (permission,) if isinstance(permission, str) else tuple(permission)
        for each in permissions:
            if each.count(".") != 1:
                msg = f"{self.label}: permission {each!r} must look like 'app_label.codename'."
                raise ImproperlyConfigured(msg)
        return permissions

    def _read_meta(self, meta: Mapping[str, Any]) -> dict[str, Any]:
        try:
            to_json(dict(meta), fallback=_unsent)
        except (PydanticSerializationError, UnicodeError) as error:
            msg = f"{self.label}: meta must be JSON: {error}."
            raise ImproperlyConfigured(msg) from error
        return dict(meta)

    def _listed(self, option: str, given: Collection[str]) -> Collection[str]:
        """*given*, which must not be a single string: that would be a list of its letters."""
        if isinstance(given, str):
            msg = f"{self.label}: {option} must be a list, like [{given!r}]."
            raise ImproperlyConfigured(msg)
        return given

    @cached_property
    def is_translated(self) -> bool:
        """Whether it is described in the language of the request."""
        return is_translated(self.definition)

    @property
    def asks_user(self) -> bool:
        """Whether it depends on the caller's user, or on the site's own predicate: to find out may take a query."""
        return bool(self.permissions or self.groups) or self.visible is not None

    def find_failure(self) -> Exception | None:
        """Return why ``definition`` does not say yet what it takes; None if it does, as for most."""
        return None

    def add_tags(self, tags: Iterable[str]) -> None:
        """Give it further tags, and tell of all in its definition."""
        self.tags |= frozenset(tags)
        if self.tags:
            meta = self.definition.get("_meta", {})
            told = {**meta.get(TAGS_IN_META, {}), "tags": sorted(self.tags)}
            self.definition["_meta"] = {**meta, TAGS_IN_META: told}

    def move_into(self, namespace: str) -> None:
        """Put a namespace before its name, which is its key too unless that is a URI; and add it to the tags.

        Raises:
            ImproperlyConfigured: the name is too long for that.
        """
        is_key = self.key == self.name
        self.name = self.definition["name"] = _joined(namespace, self.name)
        self.add_tags([namespace])
        if is_key:
            self.key = self.name
            self.require_plain_name()

    @property
    def label(self) -> str:
        """For messages to the site's owner: which one, and where its code is."""
        module = getattr(self.function.call, "__module__", "?")
        return f"{self.kind} {self.name!r} ({module}.{self.function.name})"

    def require_plain_name(self) -> None:
        """Refuse a name that real clients refuse.

        The specification allows more, but one bad name hides *all* tools of a server from some clients.

        Raises:
            ImproperlyConfigured: it is not 1 to 64 of ``a-z A-Z 0-9 _ -``.
        """
        if not NAME.fullmatch(self.name):
            length = f"; this one has {len(self.name)}" if len(self.name) > MOST_CHARACTERS else ""
            msg = f"{self.label}: a name is 1 to 64 letters, digits, '_' or '-'{length}."
            raise ImproperlyConfigured(msg)

    def keywords(self, context: Any, arguments: dict[str, Any]) -> dict[str, Any]:
        """What to call the function with. *arguments* have been validated."""
        name = self.function.context
        return arguments if name is None else {**arguments, name: context}


def _unsent(value: Any) -> str:
    """Stand for a lazy translation, which cannot be read before all apps are ready."""
    if isinstance(value, Promise):
        return ""
    msg = f"{type(value).__name__} is none of its types"
    raise TypeError(msg)


def _joined(namespace: str | None, name: str) -> str:
    return name if namespace is None else f"{namespace}_{name}"
