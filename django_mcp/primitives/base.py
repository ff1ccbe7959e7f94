"""The base class of all primitives: options, errors, rates and lazy translations."""

import difflib
import inspect
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, TypeGuard

from django.core.exceptions import ImproperlyConfigured
from django.utils import translation
from django.utils.functional import Promise, keep_lazy_text
from django.utils.translation.trans_null import gettext_noop  # does not read settings, which are still loading
from pydantic_core import PydanticSerializationError, from_json, to_json

from django_mcp.primitives.function import Function, dotted_name, origin_of, read_function
from django_mcp.protocol.content import Icon


class ToolError(Exception):
    """An error that the model reads: say what went wrong and what to do instead.

    The text is sent unchanged, so it must not reveal anything the caller may not see.

    Attributes:
        meta: the result's ``_meta``, for programs. Keys that begin with ``django-mcp/`` are removed.
        is_of_package: True if this package raised the error; ``meta`` is then sent whole.
    """

    meta: Mapping[str, Any] | None = None
    is_of_package = False


class FormError(Exception):
    """An invalid form answer. ``problems`` are sentences that tell a person how to correct it."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__(" ".join(problems))
        self.problems = list(problems)


INTERNAL = frozenset({"arguments", "context_type"})
"""Keyword-only parameters that are not options."""


def check_options(label: str, given: Iterable[str], *takers: Callable[..., Any], also: Iterable[str] = ()) -> None:
    """Refuse *given* options that are not keyword-only parameters of *takers*.

    Raises:
        ImproperlyConfigured: an option is unknown; the message names the closest match. *label* names the owner.
    """
    known = sorted({*_taken(takers), *also, "server"})
    for name in given:
        if name not in known:
            msg = f"{label}: unknown option {name!r}. {_hint(name, known)}"
            raise ImproperlyConfigured(msg)


def _hint(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, known)
    if not close:
        return f"Valid options: {', '.join(known)}."
    return f"Did you mean {min(close, key=lambda each: each[0] != name[0])!r}?"  # prefer the same first letter


def _taken(takers: Iterable[Callable[..., Any]]) -> set[str]:
    parameters = [parameter for taker in takers for parameter in inspect.signature(taker).parameters.values()]
    return {parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY} - INTERNAL


NO_RATE = gettext_noop("%(rate)r is not a rate. Use a number and s, m, h or d, such as '60/m' for 60 calls per minute.")
"""Raised untranslated: settings may be read before translations are available."""

_RATE = re.compile(r"([1-9][0-9]{0,8})/([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_WORDS = {1: "a second", 60: "a minute", 3600: "an hour", 86400: "a day"}


class Rate(NamedTuple):
    """A maximum number of calls per number of seconds."""

    most: int
    seconds: int

    def __str__(self) -> str:
        return f"{self.most} {_WORDS[self.seconds]}"


def parse_rate(text: str | None, label: str | None = None) -> Rate | None:
    """Return the rate of a text such as ``"60/m"``: a number and ``s``, ``m``, ``h`` or ``d``. None is no limit.

    Raises:
        ImproperlyConfigured: the text is not a rate; *label* names the option's owner.
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
    """Return True if *value*, otherwise JSON, contains a lazy translation."""
    match value:
        case dict():
            return any(map(is_translated, value.values()))
        case list() | tuple() | set() | frozenset():
            return any(map(is_translated, value))
    return isinstance(value, Promise)


def is_text(value: Any) -> TypeGuard[str]:
    """Return True if *value* is a text that is not empty, or a lazy translation, which is not evaluated."""
    return isinstance(value, Promise) or bool(value)


def lazy_text(value: Any) -> str:
    """Return a lazy translation as text: the ``fallback`` of pydantic's encoders, which know no such class.

    Raises:
        TypeError: the value is something else.
    """
    if isinstance(value, Promise):
        return str(value)
    msg = f"unable to serialize an object of the class {type(value).__name__}"
    raise TypeError(msg)


def translate(value: Any, language: str) -> Any:
    with translation.override(language):
        return translated(value)


def untranslated(text: Any) -> str:
    with translation.override(None):
        return str(text)


@keep_lazy_text
def phrase(template: str, words: Any, *, lower: bool = False) -> str:
    """Return *template* filled with *words*; lazy if *words* is a lazy translation."""
    return template.format(_within_sentence(str(words)) if lower else str(words))


def _within_sentence(words: str) -> str:
    # Title case is removed: "IP addresses", "own events", "hotels in Paris". Other languages have capitals for other
    # reasons, as German nouns.
    if not (translation.get_language() or "en").startswith("en"):
        return words
    first, *others = words.split(" ")
    if others and all(other[:1].isupper() for other in others):  # each word has one
        return " ".join(map(_lowered, (first, *others)))
    return " ".join((_lowered(first), *others))


def _lowered(word: str) -> str:
    # Abbreviations such as "VRFs" keep their capitals.
    return word.lower() if word[1:] == word[1:].lower() else word


def sendable(value: Any) -> Any:
    """Return *value*, JSON apart from lazy translations, in the current language.

    Called inside the function's transaction, which is rolled back if the value cannot be sent.

    Raises:
        PydanticSerializationError: the value has no JSON form, such as half of a surrogate pair.
    """
    try:
        to_json(value)
    except PydanticSerializationError:
        value = from_json(to_json(translated(value), fallback=lazy_text))
    return value


def translated(value: Any) -> Any:
    match value:
        case dict():
            return {translated(key): translated(entry) for key, entry in value.items()}
        case list() | tuple() | set() | frozenset():
            return [translated(entry) for entry in value]
        case Promise():
            return str(value)
    return value


MAX_CHARACTERS = 64
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")

_cleaned = keep_lazy_text(inspect.cleandoc)
TAGS_IN_META = "fastmcp"
"""Key of tags in ``_meta``, as clients that support tags read it."""


class Primitive:
    """A named function with the texts that clients show for it. ``@tool`` documents the options.

    Args:
        call: the function.
        context_type: annotation of the context parameter.
        unknown: refused as unknown options.

    Attributes:
        key: unique on an endpoint: the name or the URI.
        definition: the entry in lists, as a JSON object; title and descriptions may be lazy translations.
        is_guarded: permissions, groups, scopes or ``visible`` restrict it.
        position: place in lists; set at registration.
        is_generated: made for a model; rebuilt when another model is registered.
        extension: the protocol ``Extension`` it adds to its endpoint, if any.
        is_interactive: may send messages, ask its client or be cancelled while it runs.
        is_late: ``find_failure`` may query the database, so it must not run on an event loop.
        for_apps: it is only for clients that show MCP Apps.
    """

    kind = "primitive"
    is_late = False
    for_apps = False

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
            check_options(self.label, unknown, *(base.__init__ for base in type(self).__mro__))  # type: ignore[misc]
        self.description = _cleaned(description) if is_text(description) else self.function.description
        self.permissions = self._read_permissions(permission)
        self.groups = frozenset(self._listed("groups", groups))
        self.scopes = frozenset(self._listed("scopes", scopes))
        if visible is not None and not callable(visible):
            msg = f"{self.label}: visible must be a function, like lambda ctx: ctx.user.is_staff, not {visible!r}."
            raise ImproperlyConfigured(msg)
        if visible is not None and inspect.iscoroutinefunction(visible):
            msg = f"{self.label}: visible must not be async. It runs in a worker thread and may query the database."
            raise ImproperlyConfigured(msg)
        self.visible = visible
        self.is_guarded = self.asks_user or bool(scopes)
        self.is_generated = False
        self.position = -1
        self.extension: Any = None
        self.definition: dict[str, Any] = {"name": self.name}
        if title is not None:
            self.definition["title"] = title
        if is_text(self.description):
            self.definition["description"] = self.description
        if icons:
            self.definition["icons"] = [icon.to_wire() for icon in icons]
        if meta is not None:
            self.definition["_meta"] = self._read_meta(meta)
        self.tags: frozenset[str] = frozenset()
        self.add_tags({*self._listed("tags", tags), *([] if namespace is None else [namespace])})

    def _read_permissions(self, permission: str | Sequence[str] | None) -> tuple[str, ...]:
        permissions = () if permission is None else (permission,) if isinstance(permission, str) else tuple(permission)
        for name in permissions:
            if name.count(".") != 1:
                msg = f"{self.label}: permission {name!r} must have the form 'app_label.codename'."
                raise ImproperlyConfigured(msg)
        return permissions

    def _read_meta(self, meta: Mapping[str, Any]) -> dict[str, Any]:
        try:
            to_json(dict(meta), fallback=_unsent)
        except (PydanticSerializationError, UnicodeError) as error:
            msg = f"{self.label}: meta must be JSON serializable: {error}."
            raise ImproperlyConfigured(msg) from error
        return dict(meta)

    def _listed(self, option: str, given: Collection[str]) -> Collection[str]:
        if isinstance(given, str):
            msg = f"{self.label}: {option} must be a list, like [{given!r}]."
            raise ImproperlyConfigured(msg)
        return given

    @cached_property
    def is_translated(self) -> bool:
        return is_translated(self.definition)

    @property
    def asks_user(self) -> bool:
        # Checking these may query the database.
        return bool(self.permissions or self.groups) or self.visible is not None

    def find_failure(self) -> Exception | None:
        """Return the error that kept ``definition`` from being completed, or None."""
        return None

    def add_tags(self, tags: Iterable[str]) -> None:
        self.tags |= frozenset(tags)
        if self.tags:
            meta = self.definition.get("_meta", {})
            told = {**meta.get(TAGS_IN_META, {}), "tags": sorted(self.tags)}
            self.definition["_meta"] = {**meta, TAGS_IN_META: told}

    def move_into(self, namespace: str) -> None:
        """Prefix the name, and the key unless it is a URI, with a namespace; add the namespace as a tag.

        Raises:
            ImproperlyConfigured: the name becomes too long.
        """
        is_key = self.key == self.name
        self.name = self.definition["name"] = _joined(namespace, self.name)
        self.add_tags([namespace])
        if is_key:
            self.key = self.name
            self.require_plain_name()

    @property
    def label(self) -> str:
        return f"{self.kind} {self.name!r} ({dotted_name(origin_of(self.function.call))})"

    def require_plain_name(self) -> None:
        """Check the name against what clients accept.

        The specification allows more, but some clients hide *all* tools of a server because of one such name.

        Raises:
            ImproperlyConfigured: the name is not 1 to 64 of ``a-z A-Z 0-9 _ -``.
        """
        if not NAME.fullmatch(self.name):
            length = f" of {len(self.name)} characters" if len(self.name) > MAX_CHARACTERS else ""
            msg = f"{self.label}: invalid name{length}. Use 1 to 64 letters, digits, '_' or '-'."
            raise ImproperlyConfigured(msg)

    def keywords(self, context: Any, arguments: dict[str, Any]) -> dict[str, Any]:
        name = self.function.context
        return arguments if name is None else {**arguments, name: context}


def _unsent(value: Any) -> str:
    # A lazy translation cannot be evaluated before all apps are ready.
    if isinstance(value, Promise):
        return ""
    msg = f"{type(value).__name__} is not a JSON type"
    raise TypeError(msg)


def _joined(namespace: str | None, name: str) -> str:
    return name if namespace is None else f"{namespace}_{name}"
