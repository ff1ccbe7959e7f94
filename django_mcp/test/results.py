"""Results of requests, with assertions, and checks against the schemas that tools promise."""

import difflib
import json
import pprint
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

from django_mcp.core.failures import unknown
from django_mcp.protocol.errors import ResourceNotFound
from django_mcp.protocol.meta import APPROVAL
from django_mcp.test.responder import Question, words_of

WIDTH = 110
LONGEST = 2000
"""Characters of a result in a message."""


class Sender(Protocol):
    """The client that sent a request, such as an ``MCPClient``."""

    @property
    def who(self) -> str:
        """The caller, for messages."""

    def names(self, kind: str = "tool") -> list[str]:
        """Return the names that the caller is shown; see ``MCPClient.names``."""


@dataclass(kw_only=True)
class Outcome:
    """What came of a request.

    Attributes:
        client: who sent it.
        method: of the request.
        params: of it.
        protocol_version: the protocol version it was sent in.
        status: of HTTP.
        result: the result; empty where there is none.
        error: the JSON-RPC error; empty where there is none.
        asked: what the client was asked on the way.
        told: notifications that came on the way.
        raised: what the site's code raised and did not expect. The client was told no more than a number.
    """

    client: Sender = field(repr=False)
    method: str
    params: Mapping[str, Any]
    protocol_version: str
    status: int
    result: dict[str, Any]
    error: dict[str, Any]
    asked: Sequence[Question] = ()
    told: Sequence[Mapping[str, Any]] = ()
    raised: BaseException | None = None

    kind = ""
    """What a name that is unknown is called."""

    @property
    def name(self) -> str:
        """What the request is about."""
        return str(self.params.get("name") or self.params.get("uri") or "")

    @property
    def ok(self) -> bool:
        """Whether it did what was asked for."""
        return not self.error and bool(self.result)

    @property
    def text(self) -> str:
        """What a model reads of it."""
        return self.message

    @property
    def message(self) -> str:
        """The words of its error; empty where there is none."""
        return str(self.error.get("message", ""))

    @property
    def is_hidden(self) -> bool:
        """Whether the endpoint says that there is no such thing."""
        missing = (unknown(self.kind, self.name).message, ResourceNotFound(self.name).message)
        return bool(self.error) and self.message.startswith(missing)

    @property
    def progress(self) -> list[dict[str, Any]]:
        """The steps of progress that were reported: ``{"progress", "total", "message"}``."""
        found = [each["params"] for each in self.told if each["method"] == "notifications/progress"]
        return [{key: value for key, value in each.items() if key != "progressToken"} for each in found]

    @property
    def logs(self) -> list[dict[str, Any]]:
        """The messages that the tool logged for its client: ``{"level", "data", "logger"}``."""
        return [dict(each["params"]) for each in self.told if each["method"] == "notifications/message"]

    # Assertions

    def assert_ok(self) -> Self:
        """It did what was asked for.

        Raises:
            AssertionError: it did not.
        """
        if not self.ok:
            self.fail("It should have succeeded.")
        return self

    def assert_text(self, *parts: str) -> Self:
        """It succeeded, and each of *parts* stands in what a model reads of it.

        Raises:
            AssertionError: it does not.
        """
        self.assert_ok()
        for part in parts:
            if part not in self.text:
                self.fail(f"Its text should have {part!r}.")
        return self

    def assert_error_mentions(self, *parts: str) -> Self:
        """It failed, and the words for the model have each of *parts*, in whatever case.

        Raises:
            AssertionError: it does not.
        """
        if self.ok:
            self.fail("It should have failed.")
        said = (self.message or self.text).casefold()
        for part in parts:
            if part.casefold() not in said:
                self.fail(f"Its error should mention {part!r}.")
        return self

    def assert_hidden(self) -> Self:
        """It does not exist for this caller: it is in no list, and the answer is that for a name nobody ever used.

        Raises:
            AssertionError: it does.
        """
        if not self.is_hidden:
            self.fail("It should not exist for this caller.")
        if self.name in self.client.names(self.kind):
            self.fail("It should be in no list of this caller.")
        return self

    def assert_asked(self, *parts: str) -> Self:
        """The client was asked as many questions as there are *parts*, each with its part, in this order.

        Raises:
            AssertionError: it was not.
        """
        words = [words_of(each) for each in self.asked]
        if len(words) != len(parts) or any(part not in each for part, each in zip(parts, words, strict=True)):
            self.fail(f"It should have asked {list(parts)}.")
        return self

    def assert_needs_scopes(self, *scopes: str) -> Self:
        """It was refused for want of scopes, *scopes* among those the client is told to ask for (403).

        Raises:
            AssertionError: it was not.
        """
        challenge = self.error.get("challenge", "")
        if self.status != 403 or any(each not in challenge for each in scopes):  # noqa: PLR2004
            self.fail(f"It should have been refused for want of the scopes {', '.join(scopes)}.")
        return self

    def fail(self, expected: str) -> None:
        """Say what was expected, and what came.

        Raises:
            AssertionError: always.
        """
        raise AssertionError(f"{expected}\n{self}")

    def __str__(self) -> str:
        """All there is to know of it, in some lines."""
        lines = [
            ("request", self.request),
            ("as", f"{self.client.who}, protocol {self.protocol_version}"),
            ("got", self._got),
        ]
        lines += [("asked", words_of(each)) for each in self.asked]
        lines += [("logged", f"{each['level']}: {each['data']}") for each in self.logs]
        if self.raised is not None:
            lines.append(("raised", "".join(traceback.format_exception(self.raised)).strip()))
        return "\n".join(f"  {label:8} {_indented(text)}" for label, text in lines)

    @property
    def request(self) -> str:
        """The request, shortly."""
        return f"{self.method} {self.name}"

    @property
    def _got(self) -> str:
        if self.error:
            code = self.error.get("code")
            return (
                f"HTTP {self.status}, error {code}: {self.message}" if code else f"HTTP {self.status}: {self.message}"
            )
        if not self.result:
            return f"HTTP {self.status}, and no answer"
        return self._shown

    @property
    def _shown(self) -> str:
        shown = {key: value for key, value in self.result.items() if key != "_meta"}
        return pprint.pformat(shown, width=WIDTH, sort_dicts=False)[:LONGEST]


@dataclass(kw_only=True)
class CallResult(Outcome):
    """What came of a call of a tool."""

    kind = "tool"

    @property
    def ok(self) -> bool:
        """Whether the tool ran and did not fail."""
        return super().ok and not self.result.get("isError")

    @property
    def text(self) -> str:
        """The text in the result."""
        blocks = self.result.get("content", ())
        return "\n".join(each["text"] for each in blocks if each.get("type") == "text") or self.message

    @property
    def content(self) -> list[dict[str, Any]]:
        """The result's blocks."""
        return list(self.result.get("content", ()))

    @property
    def structured(self) -> dict[str, Any] | None:
        """The structured content; None where there is none."""
        return self.result.get("structuredContent")

    @property
    def is_waiting(self) -> bool:
        """Whether somebody has to approve the call first."""
        kind = self.result.get("_meta", {}).get(APPROVAL, {}).get("kind")
        return kind in {"approval_required", "pending"}

    @property
    def request(self) -> str:
        """The call as Python has it."""
        given = (f"{key}={value!r}" for key, value in self.params.get("arguments", {}).items())
        return f"{self.name}({', '.join(given)})"[:LONGEST]

    def assert_structured(self, expected: Mapping[str, Any] | None = None, /, **members: Any) -> Self:
        """The structured content equals *expected*, and has *members*; a single value stands under ``result``.

        Raises:
            AssertionError: it does not.
        """
        self.assert_ok()
        found = self.structured
        if found is None:
            self.fail("It should have structured content.")
        assert found is not None  # noqa: S101 - for those who read types
        if expected is not None and found != expected:
            self.fail(f"The structured content should be another:\n{_difference(expected, found)}")
        if wrong := {key: value for key, value in members.items() if key not in found or found[key] != value}:
            part = {key: found[key] for key in members if key in found}
            self.fail(f"The structured content should have other members:\n{_difference({**part, **wrong}, part)}")
        return self

    def assert_needs_approval(self) -> Self:
        """It was not run, for somebody has to approve it first.

        Raises:
            AssertionError: it does not wait for that.
        """
        if not self.is_waiting:
            self.fail("It should have waited for approval.")
        return self

    @property
    def _shown(self) -> str:
        if self.result.get("isError"):
            return f"the tool failed: {self.text}"[:LONGEST]
        if self.structured is not None:
            return pprint.pformat(self.structured, width=WIDTH, sort_dicts=False)[:LONGEST]
        return super()._shown


@dataclass(kw_only=True)
class ResourceResult(Outcome):
    """What came of reading a resource."""

    kind = "resource"

    @property
    def contents(self) -> list[dict[str, Any]]:
        """The contents: ``{"uri", "mimeType", "text" or "blob"}``."""
        return list(self.result.get("contents", ()))

    @property
    def text(self) -> str:
        """The text of all contents."""
        return "\n".join(each["text"] for each in self.contents if "text" in each) or self.message

    @property
    def json(self) -> Any:
        """The JSON that the text is."""
        return json.loads(self.text)


@dataclass(kw_only=True)
class PromptResult(Outcome):
    """What came of getting a prompt."""

    kind = "prompt"

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The prompt's messages."""
        return list(self.result.get("messages", ()))

    @property
    def text(self) -> str:
        """The text of all messages."""
        contents = [each["content"] for each in self.messages]
        return "\n".join(each["text"] for each in contents if each.get("type") == "text") or self.message


@dataclass(kw_only=True)
class CompletionResult(Outcome):
    """What came of asking for completions."""

    @property
    def name(self) -> str:
        """Of what an argument was to be completed."""
        ref = self.params["ref"]
        return str(ref.get("name") or ref.get("uri"))

    @property
    def values(self) -> list[str]:
        """What was offered."""
        return list(self.result.get("completion", {}).get("values", ()))

    @property
    def text(self) -> str:
        """What was offered, in lines."""
        return "\n".join(self.values) or self.message


def _indented(text: str) -> str:
    return text.replace("\n", "\n" + " " * 11)


def _difference(expected: Any, found: Any) -> str:
    """Line by line, as unittest shows it: what should be there with a minus, what came with a plus."""
    before, after = (pprint.pformat(each, width=60, sort_dicts=True).splitlines() for each in (expected, found))
    return "\n".join(f"    {line}" for line in difflib.ndiff(before, after) if not line.startswith("?"))


def problems(schema: Mapping[str, Any], value: Any) -> list[str]:
    """What is wrong with a value, in one line for each problem (JSON Schema 2020-12)."""
    found = _validator()(schema).iter_errors(value)
    return [f"{each.json_path}: {each.message}" for each in found]


def broken(schema: Mapping[str, Any]) -> str:
    """What is wrong with a schema itself; empty for nothing."""
    validator = _validator()
    found = next(validator(validator.META_SCHEMA).iter_errors(schema), None)
    return "" if found is None else f"{found.json_path}: {found.message}"


def _validator() -> Any:
    """The class of validators.

    Raises:
        ImportError: the package is missing; the message says what to do.
    """
    try:
        from jsonschema import Draft202012Validator  # noqa: PLC0415 - only tests need it
    except ImportError as error:
        msg = (
            "MCPClient checks what tools give against their schemas, with the package jsonschema: "
            "pip install 'django-mcp-toolkit[test]'. MCPClient(schemas=False) does without."
        )
        raise ImportError(msg) from error
    return Draft202012Validator
