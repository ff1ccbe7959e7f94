"""Results of the test client with assertions, and validation against the schemas of tools."""

import difflib
import json
import pprint
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

from django_mcp.core.failures import unknown_primitive
from django_mcp.protocol.errors import ResourceNotFound
from django_mcp.protocol.meta import APP_HTML, APPROVAL
from django_mcp.test.responder import Question, words_of

WIDTH = 110
MAX_SHOWN = 2000
"""Limit of characters of a result in messages."""


class Sender(Protocol):
    """The client that sent a request, such as an ``MCPClient``."""

    @property
    def who(self) -> str:
        """The caller, for messages."""

    def names(self, kind: str = "tool") -> list[str]:
        """See ``MCPClient.names``."""


@dataclass(kw_only=True)
class Outcome:
    """The result of a request.

    Attributes:
        client: the client that sent it.
        method: method of the request.
        params: parameters of the request.
        protocol_version: protocol version of the request.
        status: HTTP status.
        result: JSON-RPC result, empty for an error.
        error: JSON-RPC error, empty for a result.
        asked: questions that the client was asked.
        notifications: notifications received during the request.
        raised: unexpected exception in the site's code. The client only received an error number.
    """

    client: Sender = field(repr=False)
    method: str
    params: Mapping[str, Any]
    protocol_version: str
    status: int
    result: dict[str, Any]
    error: dict[str, Any]
    asked: Sequence[Question] = ()
    notifications: Sequence[Mapping[str, Any]] = ()
    raised: BaseException | None = None

    kind = ""
    """Kind of primitive, as named in "unknown" errors."""

    @property
    def name(self) -> str:
        """Name or URI of the request."""
        return str(self.params.get("name") or self.params.get("uri") or "")

    @property
    def ok(self) -> bool:
        """True if the request succeeded."""
        return not self.error and bool(self.result)

    @property
    def text(self) -> str:
        """The text that a model reads."""
        return self.message

    @property
    def message(self) -> str:
        """The error message, or ""."""
        return str(self.error.get("message", ""))

    @property
    def is_hidden(self) -> bool:
        """True if the error is the one for a name that does not exist."""
        missing = (unknown_primitive(self.kind, self.name).message, ResourceNotFound(self.name).message)
        return bool(self.error) and self.message.startswith(missing)

    @property
    def progress(self) -> list[dict[str, Any]]:
        """Progress notifications: ``{"progress", "total", "message"}``."""
        found = [
            notification["params"]
            for notification in self.notifications
            if notification["method"] == "notifications/progress"
        ]
        return [{key: value for key, value in params.items() if key != "progressToken"} for params in found]

    @property
    def logs(self) -> list[dict[str, Any]]:
        """Log messages of the tool: ``{"level", "data", "logger"}``."""
        return [
            dict(notification["params"])
            for notification in self.notifications
            if notification["method"] == "notifications/message"
        ]

    # Assertions

    def assert_ok(self) -> Self:
        """Assert that the request succeeded."""
        if not self.ok:
            self.fail("It should have succeeded.")
        return self

    def assert_text(self, *parts: str) -> Self:
        """Assert that the request succeeded and its text contains each of *parts*."""
        self.assert_ok()
        for part in parts:
            if part not in self.text:
                self.fail(f"Its text should contain {part!r}.")
        return self

    def assert_error_mentions(self, *parts: str) -> Self:
        """Assert that the request failed and its error contains each of *parts*, ignoring case."""
        if self.ok:
            self.fail("It should have failed.")
        said = (self.message or self.text).casefold()
        for part in parts:
            if part.casefold() not in said:
                self.fail(f"Its error should mention {part!r}.")
        return self

    def assert_hidden(self) -> Self:
        """Assert that the caller cannot see it: it is in no list, and the error is the one for an unknown name."""
        if not self.is_hidden:
            self.fail("It should not exist for this caller.")
        if self.name in self.client.names(self.kind):
            self.fail("It should be in no list of this caller.")
        return self

    def assert_asked(self, *parts: str) -> Self:
        """Assert that the client was asked exactly these questions in order; each contains its part."""
        words = [words_of(question) for question in self.asked]
        if len(words) != len(parts) or any(part not in text for part, text in zip(parts, words, strict=True)):
            self.fail(f"It should have asked exactly {list(parts)}.")
        return self

    def assert_needs_scopes(self, *scopes: str) -> Self:
        """Assert that the request was denied for missing scopes (403) and the challenge names *scopes*."""
        challenge = self.error.get("challenge", "")
        if self.status != 403 or any(scope not in challenge for scope in scopes):  # noqa: PLR2004
            self.fail(f"It should have been denied because of missing scopes: {', '.join(scopes)}.")
        return self

    def fail(self, expected: str) -> None:
        """Raise an AssertionError with *expected* and a description of the result."""
        raise AssertionError(f"{expected}\n{self}")

    def __str__(self) -> str:
        lines = [
            ("request", self.request),
            ("as", f"{self.client.who}, protocol {self.protocol_version}"),
            ("got", self._got),
        ]
        lines += [("asked", words_of(question)) for question in self.asked]
        lines += [("logged", f"{log['level']}: {log['data']}") for log in self.logs]
        if self.raised is not None:
            lines.append(("raised", "".join(traceback.format_exception(self.raised)).strip()))
        return "\n".join(f"  {label:8} {_indented(text)}" for label, text in lines)

    @property
    def request(self) -> str:
        """Short description of the request."""
        return f"{self.method} {self.name}"

    @property
    def _got(self) -> str:
        if self.error:
            code = self.error.get("code")
            return (
                f"HTTP {self.status}, error {code}: {self.message}" if code else f"HTTP {self.status}: {self.message}"
            )
        if not self.result:
            return f"HTTP {self.status} without a result"
        return self._shown

    @property
    def _shown(self) -> str:
        shown = {key: value for key, value in self.result.items() if key != "_meta"}
        return pprint.pformat(shown, width=WIDTH, sort_dicts=False)[:MAX_SHOWN]


@dataclass(kw_only=True)
class CallResult(Outcome):
    """The result of a tool call."""

    kind = "tool"

    @property
    def ok(self) -> bool:
        """True if the tool ran without error."""
        return super().ok and not self.result.get("isError")

    @property
    def text(self) -> str:
        """The text of the result."""
        blocks = self.result.get("content", ())
        return "\n".join(block["text"] for block in blocks if block.get("type") == "text") or self.message

    @property
    def content(self) -> list[dict[str, Any]]:
        """Content blocks of the result."""
        return list(self.result.get("content", ()))

    @property
    def structured(self) -> Any:
        """Structured content as sent to a client of this version, or None."""
        return self.result.get("structuredContent")

    @property
    def html(self) -> str:
        """The HTML that the tool's app shows, or "" for a client without apps."""
        return str(self.result.get("_meta", {}).get(APP_HTML, ""))

    @property
    def is_waiting(self) -> bool:
        """True if the call requires approval or is pending."""
        kind = self.result.get("_meta", {}).get(APPROVAL, {}).get("kind")
        return kind in {"approval_required", "pending"}

    @property
    def request(self) -> str:
        """The call in Python syntax."""
        given = (f"{key}={value!r}" for key, value in self.params.get("arguments", {}).items())
        return f"{self.name}({', '.join(given)})"[:MAX_SHOWN]

    def assert_structured(self, expected: Any = None, /, **members: Any) -> Self:
        """Assert that the structured content equals *expected*, or is an object with these *members*.

        For clients of older versions, a value that is not an object is the member ``result`` of one.
        """
        self.assert_ok()
        found = self.structured
        if found is None:
            self.fail("It should have structured content.")
        if members and not isinstance(found, Mapping):
            self.fail(
                f"The structured content should be an object with the members {', '.join(members)}, but is {found!r}."
            )
        if expected is not None and found != expected:
            self.fail(f"The structured content differs:\n{_difference(expected, found)}")
        if wrong := {key: value for key, value in members.items() if key not in found or found[key] != value}:
            part = {key: found[key] for key in members if key in found}
            self.fail(f"Members of the structured content differ:\n{_difference({**part, **wrong}, part)}")
        return self

    def assert_needs_approval(self) -> Self:
        """Assert that the call did not run because it requires approval."""
        if not self.is_waiting:
            self.fail("It should have waited for approval.")
        return self

    @property
    def _shown(self) -> str:
        if self.result.get("isError"):
            return f"the tool failed: {self.text}"[:MAX_SHOWN]
        if self.structured is not None:
            return pprint.pformat(self.structured, width=WIDTH, sort_dicts=False)[:MAX_SHOWN]
        return super()._shown


@dataclass(kw_only=True)
class ResourceResult(Outcome):
    """The result of reading a resource."""

    kind = "resource"

    @property
    def contents(self) -> list[dict[str, Any]]:
        """Contents: ``{"uri", "mimeType", "text" or "blob"}``."""
        return list(self.result.get("contents", ()))

    @property
    def text(self) -> str:
        """The text of all contents."""
        return "\n".join(content["text"] for content in self.contents if "text" in content) or self.message

    @property
    def json(self) -> Any:
        """The text parsed as JSON."""
        return json.loads(self.text)


@dataclass(kw_only=True)
class PromptResult(Outcome):
    """The result of getting a prompt."""

    kind = "prompt"

    @property
    def messages(self) -> list[dict[str, Any]]:
        """Messages of the prompt."""
        return list(self.result.get("messages", ()))

    @property
    def text(self) -> str:
        """The text of all messages."""
        contents = [message["content"] for message in self.messages]
        return "\n".join(content["text"] for content in contents if content.get("type") == "text") or self.message


@dataclass(kw_only=True)
class CompletionResult(Outcome):
    """The result of a completion request."""

    @property
    def name(self) -> str:
        """Name of the prompt, or URI template."""
        ref = self.params["ref"]
        return str(ref.get("name") or ref.get("uri"))

    @property
    def values(self) -> list[str]:
        """The completions."""
        return list(self.result.get("completion", {}).get("values", ()))

    @property
    def text(self) -> str:
        """The completions, one per line."""
        return "\n".join(self.values) or self.message


def _indented(text: str) -> str:
    return text.replace("\n", "\n" + " " * 11)


def _difference(expected: Any, found: Any) -> str:
    before, after = (pprint.pformat(value, width=60, sort_dicts=True).splitlines() for value in (expected, found))
    return "\n".join(f"    {line}" for line in difflib.ndiff(before, after) if not line.startswith("?"))


def problems(schema: Mapping[str, Any], value: Any) -> list[str]:
    """Return the validation errors of a value, one line each (JSON Schema 2020-12)."""
    found = _validator()(schema).iter_errors(value)
    return [f"{error.json_path}: {error.message}" for error in found]


def broken(schema: Mapping[str, Any]) -> str:
    validator = _validator()
    found = next(validator(validator.META_SCHEMA).iter_errors(schema), None)
    return "" if found is None else f"{found.json_path}: {found.message}"


def _validator() -> Any:
    try:
        from jsonschema import Draft202012Validator  # noqa: PLC0415 - only tests need it
    except ImportError as error:
        msg = (
            "MCPClient validates results of tools with the package jsonschema: "
            "pip install 'django-mcp-toolkit[test]', or use MCPClient(schemas=False)."
        )
        raise ImportError(msg) from error
    return Draft202012Validator
