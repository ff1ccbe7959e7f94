"""``MCPClient``: the client of a test."""

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
from django_mcp.protocol.meta import APPROVAL
from django_mcp.test.notifications import Notifications, hearing
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


@contextmanager
def rehearsal() -> Iterator[None]:
    """Undo what is done within: in all databases of the test, and mails that were sent.

    What was to be done on commit is not done. What cannot be undone is done: a request to another service, a call of a
    mock, a key in a cache.
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
    # As those of TestCase: what insists on a transaction of its own, such as the approval of a call, has it in here.
    atomic._from_testcase = True  # type: ignore[attr-defined] # noqa: SLF001
    try:
        stack.enter_context(atomic)
    except AssertionError:  # the test is not allowed to touch this database, and neither is what it calls
        return
    stack.callback(transaction.set_rollback, True, alias)


O = TypeVar("O", bound=Outcome)  # noqa: E741 - as T stands for a type

LISTS: Mapping[str, tuple[str, str, str]] = {
    "tool": ("tools/list", "tools", "name"),
    "resource": ("resources/list", "resources", "uri"),
    "template": ("resources/templates/list", "resourceTemplates", "uriTemplate"),
    "prompt": ("prompts/list", "prompts", "name"),
}
"""What is listed: method, member of the result, what it is named by."""
STRUCTURED_SINCE = "2025-06-18"


class MCPClient:
    """A client of an endpoint, in the thread and the transaction of a test.

    Without ``protocol_version`` each request is made twice: in the newest version with a handshake, in a savepoint
    that is rolled back, and then in the newest version of all. Both have to end alike, and the second is what the test
    gets. What a rollback does not undo, such as a request to another service, happens twice then.

    Args:
        user: who calls, as if the endpoint had recognised them; read anew for every request. None for whoever the
            headers say, as the endpoint's own authenticators see it.
        server: the endpoint, or its name.
        protocol_version: ``"modern"``, ``"legacy"``, or a protocol version; None for both of these.
        answers: to what tools ask, see ``call``.
        headers: of every request, such as ``{"Authorization": "Bearer …"}``.
        client_id: the OAuth client that calls in the user's name.
        scopes: what its token allows; None for a caller without scopes.
        tools: the only tools the client may use; None for all.
        capabilities: what the client declares; by default that it can be asked everything.
        schemas: check what tools give against their schemas, which takes the package ``jsonschema``.

    Raises:
        ImproperlyConfigured: there is no such endpoint.
        ValueError: there is no such version.
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
        tools: Collection[str] | None = None,
        capabilities: Mapping[str, Any] = CAPABILITIES,
        schemas: bool = True,
    ) -> None:
        self.user = user
        self.server = _server(server)
        self.answers = answers
        self._schemas = schemas
        self._definitions: dict[str, dict[str, Any]] = {}
        principal = None
        if user is not None:
            principal = Principal(
                kind="session" if client_id is None and scopes is None else "oauth",
                id=str(user.pk),
                user=user,
                scopes=None if scopes is None else frozenset(scopes),
                client_id=client_id,
                tools=None if tools is None else frozenset(tools),
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
        """Who calls, for messages."""
        return "whoever the headers say" if self.user is None else str(self.user)

    def __repr__(self) -> str:
        """For debugging."""
        return f"MCPClient({self.who}, {self.server!r}, {', '.join(each.version for each in self._sessions)})"

    # Requests

    def call(
        self, name: str, arguments: Mapping[str, Any] | None = None, /, *, answers: Answers | None = None, **more: Any
    ) -> CallResult:
        """Call a tool, and answer what it asks.

        Args:
            name: of the tool.
            arguments: for it; or give them by name.
            answers: in the order of the questions, or by words that stand in a question, or a function of the question.
                For a form a mapping of its fields or the value of its only one, ``DECLINE``, ``CANCEL``; for a model
                the text it says; for roots a list of URIs.
            more: further arguments.

        Raises:
            AssertionError: nobody has an answer to a question, an answer was never asked for, the tool gave what its
                schema does not allow, or the call ends otherwise in another version of the protocol.
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
        """Ask for completions.

        Args:
            of: the name of a prompt, or a template of URIs.
            argument: which is to be completed.
            value: so far.
            context: other arguments, as far as they are known.
        """
        ref = {"type": "ref/resource", "uri": of} if "://" in of else {"type": "ref/prompt", "name": of}
        params: dict[str, Any] = {"ref": ref, "argument": {"name": argument, "value": value}}
        if context:
            params["context"] = {"arguments": context}
        return self._request(CompletionResult, "completion/complete", params, None)

    def subscribe(self, *uris: str) -> AbstractContextManager[Notifications]:
        """Hear of changes: of resources, and of the lists. ``with client.subscribe("book://1") as heard: …``.

        What was to be done on commit is done at the end of the block, also within ``TestCase``; then ``heard`` has it.

        Raises:
            AssertionError: one of them does not exist for the caller.
        """
        principal = caller(self.server, self._headers) if self._principal is None else self._principal
        return hearing(self.server, principal, self._headers, uris)

    # Lists

    def tools(self) -> list[dict[str, Any]]:
        """The tools this caller is shown."""
        return self._list("tool")

    def resources(self) -> list[dict[str, Any]]:
        """The resources this caller is shown."""
        return self._list("resource")

    def templates(self) -> list[dict[str, Any]]:
        """The templates of resources this caller is shown."""
        return self._list("template")

    def prompts(self) -> list[dict[str, Any]]:
        """The prompts this caller is shown."""
        return self._list("prompt")

    def names(self, kind: str = "tool") -> list[str]:
        """Names of tools or prompts, URIs of resources, as the caller is shown them.

        Args:
            kind: ``"tool"``, ``"prompt"``, ``"resource"`` or ``"template"``.
        """
        return [each[LISTS[kind][2]] for each in self._list(kind)]

    def definition(self, name: str) -> dict[str, Any]:
        """A tool as this caller is shown it; empty where it is not. Read once, and nothing of that is in the log."""
        if name not in self._definitions:
            with rehearsal():
                self._definitions = {each["name"]: each for each in self._pages("tool")[0]}
        return self._definitions.get(name, {})

    # Approvals

    def approve(self, called: CallResult, by: Any, *, reason: str = "", answers: Answers | None = None) -> CallResult:
        """Have somebody approve a call that waits for it, and make the same call again.

        Args:
            called: the call.
            by: the user who approves.
            reason: for the log.
            answers: see ``call``.

        Raises:
            AssertionError: it does not wait for approval, or cannot be approved by them.
            PermissionDenied: they may not decide.
        """
        return self._decide(called, decisions.approve(_approval(called), by, reason=reason, unseen=True), by, answers)

    def refuse(self, called: CallResult, by: Any, *, reason: str = "") -> CallResult:
        """Have somebody refuse it, and make the same call again. See ``approve``."""
        return self._decide(called, decisions.deny(_approval(called), by, reason=reason), by, None)

    def _decide(self, called: CallResult, is_decided: bool, by: Any, answers: Answers | None) -> CallResult:
        if not is_decided:
            called.fail(f"{by} should have been able to decide; it is their own call, or somebody has decided already.")
        return self.call(called.name, called.params["arguments"], answers=answers)

    # In async functions

    async def acall(
        self, name: str, arguments: Mapping[str, Any] | None = None, /, *, answers: Answers | None = None, **more: Any
    ) -> CallResult:
        """``call`` in async functions."""
        return await sync_to_async(self.call)(name, arguments, answers=answers, **more)

    async def aread(self, uri: str, *, answers: Answers | None = None) -> ResourceResult:
        """``read`` in async functions."""
        return await sync_to_async(self.read)(uri, answers=answers)

    async def aprompt(self, name: str, /, *, answers: Answers | None = None, **arguments: str) -> PromptResult:
        """``prompt`` in async functions."""
        return await sync_to_async(self.prompt)(name, answers=answers, **arguments)

    # How it is done

    def _request(
        self,
        kind: type[O],
        method: str,
        params: Mapping[str, Any],
        answers: Answers | None,
        schema: Mapping[str, Any] | None = None,
    ) -> O:
        """Make a request in each version; what it does is kept in the last one alone."""
        given = self.answers if answers is None else answers
        *before, last = self._sessions
        rehearsed: list[O] = []
        for session in before:
            session.open()  # its session outlives the rehearsal
            with rehearsal():
                rehearsed.append(self._one(kind, session, method, params, given, answers is not None, schema))
        outcome = self._one(kind, last, method, params, given, answers is not None, schema)
        for each in rehearsed:
            if _ending(each) != _ending(outcome):
                msg = (
                    f"A client of protocol {each.protocol_version} has another answer than one of "
                    f"{outcome.protocol_version}.\n{each}\n{outcome}"
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
            told=ended.told,
            raised=ended.raised,
        )
        if are_its_own and person.unused:
            outcome.fail(f"It should have asked for all answers that were given; nobody asked for {person.unused!r}.")
        if self._schemas and isinstance(outcome, CallResult) and outcome.ok:
            self._check(outcome)
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
                return Ended(401, {"error": {"message": f"{self.who} may not sign in (is_active)."}}, [])
            session.principal = now
        return session.call(method, params, person, schema)

    def _check(self, called: CallResult) -> None:
        """See whether a result is what the tool promises."""
        definition = self.definition(called.name)
        for member in ("inputSchema", "outputSchema"):
            if wrong := broken(definition.get(member, {})):
                called.fail(f"The {member} of the tool should be a JSON Schema: {wrong}")
        if "outputSchema" in definition and called.protocol_version >= STRUCTURED_SINCE:
            if called.structured is None:
                called.fail("It should have structured content, for the tool has an output schema.")
            if found := problems(definition["outputSchema"], called.structured):
                called.fail("Its structured content should fit the output schema.\n    " + "\n    ".join(found))

    def _list(self, kind: str) -> list[dict[str, Any]]:
        found, ended = self._pages(kind)
        error = ended.error
        if error and error.get("code") != MethodNotFound.code:  # it has none of them
            msg = f"{LISTS[kind][0]} failed for {self.who}: HTTP {ended.status}, {error.get('message')}"
            raise AssertionError(msg)
        return found

    def _pages(self, kind: str) -> tuple[list[dict[str, Any]], Ended]:
        """All that is listed, and how the last page came."""
        method, member, _ = LISTS[kind]
        found: list[dict[str, Any]] = []
        params: dict[str, Any] = {}
        while True:
            ended = self._ended(self._sessions[-1], method, params, Responder((), method))
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
    found = {each.name: each for each in servers()}
    if given not in found:
        msg = f"There is no endpoint {given!r}; MCPClient(server=…) takes one of {', '.join(sorted(found))}."
        raise ImproperlyConfigured(msg)
    return found[given]


def _versions(protocol_version: str | None) -> Sequence[str]:
    """The versions a client speaks, the one that counts last."""
    known = {"legacy": versions.LEGACY[0], "modern": versions.MODERN[0], **{each: each for each in versions.SUPPORTED}}
    if protocol_version is None:
        return (known["legacy"], known["modern"])
    if protocol_version not in known:
        msg = f"MCPClient(protocol_version=…) takes one of {', '.join(known)}, not {protocol_version!r}."
        raise ValueError(msg)
    return (known[protocol_version],)


def _approval(called: CallResult) -> Approval:
    called.assert_needs_approval()
    return Approval.objects.get(public_id=called.result["_meta"][APPROVAL]["approval_id"])
