"""``MCPClient``, the test client."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, TypeVar

from asgiref.sync import sync_to_async
from django.core import mail
from django.core.exceptions import ImproperlyConfigured
from django.db import connections, transaction

from django_mcp.approvals import decisions
from django_mcp.client.in_process import caller
from django_mcp.client.session import CAPABILITIES, ClientSession, Ended
from django_mcp.core.principal import Principal
from django_mcp.core.resources import refresh_principal
from django_mcp.core.server import MCPServer, servers
from django_mcp.models import Approval
from django_mcp.protocol import versions
from django_mcp.protocol.errors import MethodNotFound
from django_mcp.protocol.meta import APPROVAL, APPS, APPS_SETTINGS
from django_mcp.test.notifications import Notifications, subscribed
from django_mcp.test.responder import Answers, Responder
from django_mcp.test.results import (
    CallResult,
    CompletionResult,
    Outcome,
    PromptResult,
    ResourceResult,
    broken,
    problems,
)

O = TypeVar("O", bound=Outcome)  # noqa: E741 - a type variable


@contextmanager
def rehearsal() -> Iterator[None]:
    """Roll back the database changes and sent mail of a block, in all databases of the test.

    Callbacks on commit do not run. Other side effects, such as requests to services, mock calls and cache keys,
    persist.
    """
    outbox = getattr(mail, "outbox", None)
    sent = 0 if outbox is None else len(outbox)
    with ExitStack() as stack:
        for alias in connections:
            _enter(stack, alias)
        yield
    if outbox is not None:
        del outbox[sent:]


def _enter(stack: ExitStack, alias: str) -> None:
    atomic = transaction.atomic(alias)
    # As in TestCase, durable blocks (such as the approval of a call) are allowed within this one.
    atomic._from_testcase = True  # type: ignore[attr-defined] # noqa: SLF001
    try:
        stack.enter_context(atomic)
    except AssertionError:  # the test may not access this database
        return
    stack.callback(transaction.set_rollback, True, alias)


LISTS: Mapping[str, tuple[str, str, str]] = {
    "tool": ("tools/list", "tools", "name"),
    "resource": ("resources/list", "resources", "uri"),
    "template": ("resources/templates/list", "resourceTemplates", "uriTemplate"),
    "prompt": ("prompts/list", "prompts", "name"),
}
"""List method, member of its result, and identifying field."""
STRUCTURED_SINCE = "2025-06-18"


class MCPClient:
    """A client of an endpoint, in the thread and transaction of a test.

    Without ``protocol_version`` each request is sent twice: in the newest legacy version, in a savepoint that is rolled
    back, and then in the newest version. Both must have the same outcome; the second is returned. Side effects that a
    rollback does not undo, such as requests to other services, happen twice.

    Args:
        user: the caller, without authentication; reloaded for each request. None authenticates by ``headers``.
        server: the endpoint or its name.
        protocol_version: ``"modern"``, ``"legacy"``, or a protocol version. None tests both.
        answers: answers to questions of tools; see ``call``.
        headers: headers of every request, such as ``{"Authorization": "Bearer …"}``.
        client_id: the OAuth client that acts for the user.
        scopes: scopes of its token. None for a caller without scopes.
        capabilities: declared client capabilities. Default: all kinds of questions.
        apps: declare that the client shows MCP Apps.
        schemas: validate results against the schemas of tools. Requires the package ``jsonschema``.

    Raises:
        ImproperlyConfigured: the endpoint does not exist.
        ValueError: the protocol version is unknown.
    """

    def __init__(
        self,
        user: Any = None,
        *,
        server: MCPServer | str = "default",
        protocol_version: str | None = None,
        answers: Answers = (),
        headers: Mapping[str, str] | None = None,
        client_id: str | None = None,
        scopes: Collection[str] | None = None,
        capabilities: Mapping[str, Any] = CAPABILITIES,
        apps: bool = False,
        schemas: bool = True,
    ) -> None:
        if apps:
            capabilities = {**capabilities, "extensions": {**capabilities.get("extensions", {}), APPS: APPS_SETTINGS}}
        self.user = user
        self.server = _server(server)
        self.answers = answers
        self._schemas = schemas
        self._definitions: dict[str, dict[str, dict[str, Any]]] = {}  # by version and name
        principal = None
        if user is not None:
            principal = Principal(
                kind="session" if client_id is None and scopes is None else "oauth",
                id=str(user.pk),
                user=user,
                scopes=None if scopes is None else frozenset(scopes),
                client_id=client_id,
                steps_up=scopes is not None,
            )
        self._principal = principal
        self._headers = {name.lower(): value for name, value in (headers or {}).items()}
        self._sessions = [
            ClientSession(self.server, version, principal, self._headers, capabilities)
            for version in _versions(protocol_version)
        ]

    @property
    def who(self) -> str:
        """The caller, for messages."""
        return "the caller of the headers" if self.user is None else str(self.user)

    def __repr__(self) -> str:
        return f"MCPClient({self.who}, {self.server!r}, {', '.join(session.version for session in self._sessions)})"

    # Requests

    def call(
        self, name: str, arguments: Mapping[str, Any] | None = None, /, *, answers: Answers | None = None, **more: Any
    ) -> CallResult:
        """Call a tool and answer its questions.

        Args:
            name: name of the tool.
            arguments: its arguments, or pass them as keywords.
            answers: a list in the order of the questions, a dict from a part of the question's text to an answer, or a
                function of the question. The answer to a form is a dict of its fields or the value of its only field,
                ``DECLINE`` or ``CANCEL``; to a sampling request its text; to a roots request a list of URIs.
            more: further arguments.

        Raises:
            AssertionError: a question has no answer, an answer was not used, the result does not match the tool's
                schema, or the outcome differs between protocol versions.
        """
        schema = self.definition(name).get("inputSchema")
        params = {"name": name, "arguments": {**(arguments or {}), **more}}
        return self._request(CallResult, "tools/call", params, answers, schema)

    def read(self, uri: str, *, answers: Answers | None = None) -> ResourceResult:
        """Read a resource."""
        return self._request(ResourceResult, "resources/read", {"uri": uri}, answers)

    def prompt(self, name: str, /, *, answers: Answers | None = None, **arguments: str) -> PromptResult:
        """Get a prompt."""
        return self._request(PromptResult, "prompts/get", {"name": name, "arguments": arguments}, answers)

    def complete(self, of: str, argument: str, value: str = "", /, **context: str) -> CompletionResult:
        """Request completions.

        Args:
            of: name of a prompt, or a URI template.
            argument: name of the argument to complete.
            value: its value so far.
            context: other arguments already known.
        """
        ref = {"type": "ref/resource", "uri": of} if "://" in of else {"type": "ref/prompt", "name": of}
        params: dict[str, Any] = {"ref": ref, "argument": {"name": argument, "value": value}}
        if context:
            params["context"] = {"arguments": context}
        return self._request(CompletionResult, "completion/complete", params, None)

    def subscribe(self, *uris: str) -> AbstractContextManager[Notifications]:
        """Subscribe to resources and list changes: ``with client.subscribe("book://1") as heard: …``.

        Callbacks on commit run at the end of the block, even in a ``TestCase``; then ``heard`` has the notifications.

        Raises:
            AssertionError: a resource does not exist for the caller.
        """
        principal = caller(self.server, self._headers) if self._principal is None else self._principal
        return subscribed(self.server, principal, self._headers, uris)

    # Lists

    def tools(self) -> list[dict[str, Any]]:
        """Return the tools visible to the caller."""
        return self._list("tool")

    def resources(self) -> list[dict[str, Any]]:
        """Return the resources visible to the caller."""
        return self._list("resource")

    def templates(self) -> list[dict[str, Any]]:
        """Return the resource templates visible to the caller."""
        return self._list("template")

    def prompts(self) -> list[dict[str, Any]]:
        """Return the prompts visible to the caller."""
        return self._list("prompt")

    def names(self, kind: str = "tool") -> list[str]:
        """Return the names (or URIs) visible to the caller.

        Args:
            kind: ``"tool"``, ``"prompt"``, ``"resource"`` or ``"template"``.
        """
        return [entry[LISTS[kind][2]] for entry in self._list(kind)]

    def definition(self, name: str) -> dict[str, Any]:
        """Return a tool's definition as the caller sees it, or {} if hidden. Cached, and not in the request log."""
        return self._definition(name, self._sessions[-1])

    def _definition(self, name: str, session: ClientSession) -> dict[str, Any]:
        known = self._definitions.get(session.version, {})
        if name not in known:
            with rehearsal():
                known = {page["name"]: page for page in self._pages("tool", session)[0]}
            self._definitions[session.version] = known
        return known.get(name, {})

    # Approvals

    def approve(self, called: CallResult, by: Any, *, reason: str = "", answers: Answers | None = None) -> CallResult:
        """Approve a pending call as a user, and repeat the call.

        Args:
            called: the call.
            by: the approver, signed in to the admin; the requester too, if the tool lets them decide.
            reason: reason for the log.
            answers: see ``call``.

        Raises:
            AssertionError: the call is not pending, or this user cannot approve it.
            PermissionDenied: the user may not decide.
        """
        return self._decide(
            called, decisions.approve(_approval(called), by, reason=reason, unseen=True, in_admin=True), by, answers
        )

    def deny(self, called: CallResult, by: Any, *, reason: str = "") -> CallResult:
        """Deny a pending call as a user, and repeat the call. See ``approve``."""
        return self._decide(called, decisions.deny(_approval(called), by, reason=reason, in_admin=True), by, None)

    def _decide(self, called: CallResult, is_decided: bool, by: Any, answers: Answers | None) -> CallResult:
        if not is_decided:
            called.fail(f"{by} should have been able to decide. It is their own call, or it was already decided.")
        return self.call(called.name, called.params["arguments"], answers=answers)

    # In async functions

    async def acall(
        self, name: str, arguments: Mapping[str, Any] | None = None, /, *, answers: Answers | None = None, **more: Any
    ) -> CallResult:
        """Async version of ``call``."""
        return await sync_to_async(self.call)(name, arguments, answers=answers, **more)

    async def aread(self, uri: str, *, answers: Answers | None = None) -> ResourceResult:
        """Async version of ``read``."""
        return await sync_to_async(self.read)(uri, answers=answers)

    async def aprompt(self, name: str, /, *, answers: Answers | None = None, **arguments: str) -> PromptResult:
        """Async version of ``prompt``."""
        return await sync_to_async(self.prompt)(name, answers=answers, **arguments)

    # Internals

    def _request(
        self,
        kind: type[O],
        method: str,
        params: Mapping[str, Any],
        answers: Answers | None,
        schema: Mapping[str, Any] | None = None,
    ) -> O:
        # Only the last one is not rolled back.
        given = self.answers if answers is None else answers
        *before, last = self._sessions
        rehearsed: list[O] = []
        for session in before:
            session.open()  # outside of the rollback
            with rehearsal():
                rehearsed.append(self._one(kind, session, method, params, given, answers is not None, schema))
        outcome = self._one(kind, last, method, params, given, answers is not None, schema)
        for other in rehearsed:
            if _ending(other) != _ending(outcome):
                msg = (
                    f"The outcome in protocol {other.protocol_version} differs from the one in "
                    f"{outcome.protocol_version}.\n{other}\n{outcome}"
                )
                raise AssertionError(msg)
        return outcome

    def _one(
        self,
        kind: type[O],
        session: ClientSession,
        method: str,
        params: Mapping[str, Any],
        answers: Answers,
        are_its_own: bool,
        schema: Mapping[str, Any] | None = None,
    ) -> O:
        person = Responder(answers, f"{params.get('name') or params.get('uri') or method} (protocol {session.version})")
        ended = self._ended(session, method, params, person, schema)
        outcome = kind(
            client=self,
            method=method,
            params=params,
            protocol_version=session.version,
            status=ended.status,
            result=ended.result,
            error=ended.error,
            asked=person.asked,
            notifications=ended.notifications,
            raised=ended.raised,
        )
        if are_its_own and person.unused:
            outcome.fail(f"It should have asked for all answers; unused answers: {person.unused!r}.")
        if self._schemas and isinstance(outcome, CallResult) and outcome.ok:
            self._check(outcome, self._definition(outcome.name, session))
        return outcome

    def _ended(
        self,
        session: ClientSession,
        method: str,
        params: Mapping[str, Any],
        person: Responder,
        schema: Mapping[str, Any] | None = None,
    ) -> Ended:
        if self._principal is not None:
            now = refresh_principal(self._principal, None)
            if now is None:
                return Ended(401, {"error": {"message": f"{self.who} is inactive (is_active)."}}, [])
            session.principal = now
        return session.call(method, params, person, schema)

    def _check(self, called: CallResult, definition: Mapping[str, Any]) -> None:
        for member in ("inputSchema", "outputSchema"):
            if wrong := broken(definition.get(member, {})):
                called.fail(f"The {member} of the tool should be a valid JSON Schema: {wrong}")
        if "outputSchema" in definition and called.protocol_version >= STRUCTURED_SINCE:
            if called.structured is None:
                called.fail("It should have structured content, because the tool has an output schema.")
            if found := problems(definition["outputSchema"], called.structured):
                called.fail("Its structured content should match the output schema.\n    " + "\n    ".join(found))

    def _list(self, kind: str) -> list[dict[str, Any]]:
        found, ended = self._pages(kind, self._sessions[-1])
        error = ended.error
        if error and error.get("code") != MethodNotFound.code:  # the endpoint has no such primitives
            msg = f"{LISTS[kind][0]} failed for {self.who}: HTTP {ended.status}, {error.get('message')}"
            raise AssertionError(msg)
        return found

    def _pages(self, kind: str, session: ClientSession) -> tuple[list[dict[str, Any]], Ended]:
        method, member, _ = LISTS[kind]
        found: list[dict[str, Any]] = []
        params: dict[str, Any] = {}
        while True:
            ended = self._ended(session, method, params, Responder((), method))
            result = ended.result
            found += result.get(member, ())
            if "nextCursor" not in result:
                return found, ended
            params = {"cursor": result["nextCursor"]}


def _ending(outcome: Outcome) -> Any:
    return outcome.ok, outcome.is_hidden, isinstance(outcome, CallResult) and outcome.is_waiting


def _server(given: MCPServer | str) -> MCPServer:
    if isinstance(given, MCPServer):
        return given
    found = {server.name: server for server in servers()}
    if given not in found:
        msg = f"There is no endpoint {given!r}; MCPClient(server=…) takes one of {', '.join(sorted(found))}."
        raise ImproperlyConfigured(msg)
    return found[given]


def _versions(protocol_version: str | None) -> Sequence[str]:
    known = {
        "legacy": versions.LEGACY[0],
        "modern": versions.MODERN[0],
        **{version: version for version in versions.SUPPORTED},
    }
    if protocol_version is None:
        return (known["legacy"], known["modern"])
    if protocol_version not in known:
        msg = f"MCPClient(protocol_version=…) takes one of {', '.join(known)}, not {protocol_version!r}."
        raise ValueError(msg)
    return (known[protocol_version],)


def _approval(called: CallResult) -> Approval:
    called.assert_needs_approval()
    return Approval.objects.get(public_id=called.result["_meta"][APPROVAL]["approval_id"])
