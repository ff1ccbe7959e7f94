"""What tools, resources, templates and prompts share: options, errors, translations, rates."""

import difflib
import inspect
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from django.core.exceptions import ImproperlyConfigured
from django.utils import translation
from django.utils.functional import Promise, keep_lazy_text
from django.utils.translation.trans_null import gettext_noop  # the other one asks settings, which are being read
from pydantic_core import PydanticSerializationError, to_json

from django_mcp.primitives.function import Function, read_function
from django_mcp.protocol.content import Icon


class ToolError(Exception):
    """Raised by a tool to tell the model what went wrong and what to do instead.

    The text goes to the client as it is; never put into it what the caller may not see.

    Attributes:
        meta: the result's ``_meta``, for programs. Keys that begin with ``django-mcp/`` are left out.
        is_of_package: the package itself raised it, and its ``meta`` is sent whole.
    """

    meta: Mapping[str, Any] | None = None
    is_of_package = False


class FormError(Exception):
    """What was filled in does not fit. Each of ``problems`` is a sentence from which a person can correct it."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__(" ".join(problems))
        self.problems = list(problems)


INTERNAL = frozenset({"arguments", "context_type"})
"""What primitives take from those who make them, and nobody declares."""


def check_options(label: str, given: Iterable[str], *takers: Callable[..., Any], also: Iterable[str] = ()) -> None:
    """Refuse an option that there is not.

    Args:
        label: whose options they are, for the error.
        given: their names.
        takers: what takes them by name.
        also: further ones that may be meant.

    Raises:
        ImproperlyConfigured: there is no such option; it names the nearest one.
    """
    known = sorted({*_taken(takers), *also, "server"})
    for name in given:
        if name not in known:
            msg = f"{label}: there is no option {name!r}. {_hint(name, known)}"
            raise ImproperlyConfigured(msg)


def _hint(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, known)
    if not close:
        return f"There are {', '.join(known)}."
    return f"Did you mean {min(close, key=lambda each: each[0] != name[0])!r}?"  # an abbreviation has the same start


def _taken(takers: Iterable[Callable[..., Any]]) -> set[str]:
    parameters = [each for taker in takers for each in inspect.signature(taker).parameters.values()]
    return {each.name for each in parameters if each.kind is each.KEYWORD_ONLY} - INTERNAL


NO_RATE = gettext_noop("%(rate)r is no rate; write a number and s, m, h or d, like '60/m' for sixty calls a minute.")
"""A message for ``gettext``: what is raised is in English, for it may be before there are translations."""

_RATE = re.compile(r"([1-9][0-9]{0,8})/([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_WORDS = {1: "a second", 60: "a minute", 3600: "an hour", 86400: "a day"}


class Rate(NamedTuple):
    """So many calls in so many seconds."""

    most: int
    seconds: int

    def __str__(self) -> str:
        """For a sentence: ``60 a minute``."""
        return f"{self.most} {_WORDS[self.seconds]}"


def parse_rate(text: str | None, label: str | None = None) -> Rate | None:
    """``"60/m"``: a number, and ``s``, ``m``, ``h`` or ``d``. None is no limit.

    Args:
        text: as a site wrote it.
        label: whose it is, for the error.

    Raises:
        ImproperlyConfigured: it is none.
    """
    if text is None:
        return None
    found = _parsed(text) if isinstance(text, str) else None
    if found is None:
        of = "" if label is None else f"{label}: rate_limit "
        raise ImproperlyConfigured(of + NO_RATE % {"rate": text})
    return found


@lru_cache
def _parsed(text: str) -> Rate | None:
    found = _RATE.fullmatch(text)
    return Rate(int(found[1]), _SECONDS[found[2]]) if found else None


def is_translated(value: Any) -> bool:
    """Whether there is a lazy translation anywhere in *value*, JSON but for those."""
    match value:
        case dict():
            return any(map(is_translated, value.values()))
        case list() | tuple():
            return any(map(is_translated, value))
    return isinstance(value, Promise)


def spoken(value: Any, language: str) -> Any:
    """A copy of *value* in a language."""
    with translation.override(language):
        return translated(value)


def untranslated(text: Any) -> str:
    """Return a text as it is written in the source, whatever language is active."""
    with translation.override(None):
        return str(text)


@keep_lazy_text
def phrase(template: str, words: Any, *, lower: bool = False) -> str:
    """Return *template* with *words* in it, which may be a lazy translation; then the phrase is one too."""
    return template.format(str(words).lower() if lower else str(words))


def sendable(value: Any) -> Any:
    """Return *value*, JSON but for lazy translations, with these as text of the current language.

    What a function gives back passes here while its transaction is open: if it cannot be sent, nothing of it stays.

    Raises:
        PydanticSerializationError: it has no form in JSON, for example half of a surrogate pair.
    """
    try:
        to_json(value)
    except PydanticSerializationError:
        value = translated(value)
        to_json(value)
    return value


def translated(value: Any) -> Any:
    """Return a copy of *value* in the current language."""
    match value:
        case dict():
            return {translated(key): translated(each) for key, each in value.items()}
        case list() | tuple():
            return [translated(each) for each in value]
        case Promise():
            return str(value)
    return value


MAX_CHARACTERS = 64
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
        is_interactive: it can say or ask something while it runs, or be stopped where it waits.
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
        self.is_interactive = self.function.is_async or self.function.context is not None
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
            length = f"; this one has {len(self.name)}" if len(self.name) > MAX_CHARACTERS else ""
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
