"""What must be seen at every way in: a row for each kind of message, question, error, limit and header.

``test_matrix.py`` sends every row to the endpoint of ``furnished.py``, at each edge with each version. What takes more
than one request is a scene there.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django_mcp.core.channel import LEVELS
from tests.behaviour.furnished import BASE_URL, LIMITED_TO, MAX_BYTES
from tests.clients import LEGACY, META, MODERN
from tests.conversation import DECLINE, accept, said

FOREIGN = "https://evil.example.com"
TOKEN = {"progressToken": "t"}
HELLO = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "tests", "version": "1"}}


@dataclass(frozen=True)
class Ask:
    """A request, as a client of each version sends it.

    Attributes:
        answers: to what the client is asked meanwhile.
        times: how often it is sent; what is seen is the last answer.
    """

    method: str
    params: Mapping[str, Any] = field(default_factory=dict)
    answers: Any = ()
    times: int = 1


@dataclass(frozen=True)
class Send:
    """An HTTP request. *headers* replace or (None) remove a client's own; *body* stands for a good request."""

    headers: Mapping[str, str | None] = field(default_factory=dict)
    body: bytes | None = None
    verb: str = "POST"
    method: str = "tools/list"


@dataclass(frozen=True)
class Seen:
    """What comes back. Members of *result* and *headers* that are not named do not matter; ``...`` is any value.

    Attributes:
        code: of the JSON-RPC error.
        asked: methods of what the client was asked, in order.
        told: notifications on the stream: method and parameters, without what was not asked for.
        empty: the answer has no body.
    """

    status: int = 200
    result: Any = None
    code: int | None = None
    headers: Mapping[str, Any] = field(default_factory=dict)
    asked: tuple[str, ...] = ()
    told: tuple[tuple[str, Any], ...] = ()
    empty: bool = False


@dataclass(frozen=True)
class Row:
    """One row. What is seen is *seen* in both eras, or *modern* and *legacy*; an era of which nothing is said has none.

    Attributes:
        without_streams: seen in both eras at the edge that holds no stream open.
        since: the oldest version that has it.
    """

    name: str
    sent: Ask | Send
    seen: Seen | None = None
    modern: Seen | None = None
    legacy: Seen | None = None
    without_streams: Seen | None = None
    since: str = "2024-11-05"

    def expected(self, version: str, edge: str) -> Seen | None:
        if version < self.since:
            return None
        revision = (self.modern if version == MODERN else self.legacy) or self.seen
        return self.without_streams if revision and edge == "view" and self.without_streams else revision


def call(name: str, /, meta: Mapping[str, Any] | None = None, answers: Any = (), **arguments: Any) -> Ask:
    return Ask("tools/call", {"name": name, "arguments": arguments, **({"_meta": meta} if meta else {})}, answers)


def text(words: str, asked: tuple[str, ...] = (), **more: Any) -> Seen:
    """A tool's result."""
    return Seen(result={"content": [{"type": "text", "text": words}], **more}, asked=asked)


def error(code: int, legacy: int = 200) -> dict[str, Seen]:
    """An error, for which the modern era has a status of its own."""
    status = 404 if code == -32601 else 400
    return {"modern": Seen(status=status, code=code), "legacy": Seen(status=legacy, code=code)}


def completion(ref: Mapping[str, str], argument: str, value: str) -> Ask:
    return Ask("completion/complete", {"ref": ref, "argument": {"name": argument, "value": value}})


STREAM = {"content-type": "text/event-stream", "cache-control": "no-store", "x-accel-buffering": "no"}
JSON = {"content-type": "application/json"}
NO_SUCH_METHOD = error(-32601)
INVALID_PARAMS = error(-32602)

ROWS = [
    # Opening
    Row(
        "server/discover",
        Ask("server/discover"),
        Seen(
            result={
                "supportedVersions": [MODERN, LEGACY, "2025-06-18", "2025-03-26", "2024-11-05"],
                "capabilities": {
                    "tools": {"listChanged": True},
                    "resources": {"listChanged": True, "subscribe": True},
                    "prompts": {"listChanged": True},
                    "completions": {},
                    "logging": {},
                },
                "instructions": "Ask for the date first.",
                "_meta": {META + "serverInfo": {"name": "test"}},
            },
            headers=JSON,
        ),
        without_streams=Seen(result={"capabilities": {"tools": {}, "resources": {}, "prompts": {}}}),
    ),
    Row(
        "initialize",
        Ask("initialize", HELLO),
        modern=Seen(status=404, code=-32601),
        legacy=Seen(
            result={
                "protocolVersion": LEGACY,
                "serverInfo": {"name": "test"},
                "capabilities": ...,
                "instructions": "Ask for the date first.",
            },
            headers={"mcp-session-id": ..., **JSON},
        ),
    ),
    Row("ping", Ask("ping"), modern=Seen(status=404, code=-32601), legacy=Seen(result={})),
    Row("a method that there is not", Ask("no/such"), **NO_SUCH_METHOD),
    # Lists
    Row(
        "tools/list",
        Ask("tools/list"),
        modern=Seen(result={"tools": ..., "ttlMs": ..., "cacheScope": ..., "resultType": "complete"}),
        legacy=Seen(result={"tools": ...}),
    ),
    Row("resources/list", Ask("resources/list"), Seen(result={"resources": [{"name": "here", "uri": "test://here"}]})),
    Row(
        "resources/templates/list",
        Ask("resources/templates/list"),
        Seen(result={"resourceTemplates": [{"name": "page", "uriTemplate": "test://page/{number}"}]}),
    ),
    Row(
        "prompts/list",
        Ask("prompts/list"),
        Seen(result={"prompts": [{"name": "plan", "arguments": [{"name": "city", "required": True}]}]}),
    ),
    Row("a cursor that is not ours", Ask("tools/list", {"cursor": "x"}), **INVALID_PARAMS),
    # Tools
    Row("tools/call: text", call("greet", name="Ada"), text("Hello, Ada!")),
    Row(
        "tools/call: structured",
        call("count"),
        text('{"total":3}', structuredContent={"total": 3}),
        since="2025-06-18",
    ),
    Row("tools/call: structured, as text", call("count"), text('{"total":3}')),
    Row("tools/call: a ToolError", call("refuse"), text("Not on Sundays.", isError=True)),
    Row("tools/call: any other error", call("fail"), Seen(result={"isError": True})),
    Row("tools/call: bad arguments", call("greet", nam="Ada"), Seen(result={"isError": True})),
    Row("tools/call: a tool that there is not", call("nothing"), **INVALID_PARAMS),
    # Resources, prompts, completion
    Row(
        "resources/read",
        Ask("resources/read", {"uri": "test://here"}),
        Seen(result={"contents": [{"uri": "test://here", "text": "It is here."}]}),
    ),
    Row(
        "resources/read: a template",
        Ask("resources/read", {"uri": "test://page/7"}),
        Seen(result={"contents": [{"uri": "test://page/7", "text": "page 7"}]}),
    ),
    Row(
        "resources/read: what there is not",
        Ask("resources/read", {"uri": "test://nowhere"}),
        modern=Seen(status=400, code=-32602),
        legacy=Seen(code=-32002),
    ),
    Row(
        "prompts/get",
        Ask("prompts/get", {"name": "plan", "arguments": {"city": "Porto"}}),
        Seen(result={"messages": [{"role": "user", "content": {"type": "text", "text": "Plan a day in Porto."}}]}),
    ),
    Row("prompts/get: without its argument", Ask("prompts/get", {"name": "plan"}), **INVALID_PARAMS),
    Row("prompts/get: what there is not", Ask("prompts/get", {"name": "nothing"}), **INVALID_PARAMS),
    Row(
        "completion/complete: a prompt",
        completion({"type": "ref/prompt", "name": "plan"}, "city", "Po"),
        Seen(result={"completion": {"values": ["Porto", "Potsdam"], "total": 2, "hasMore": False}}),
    ),
    Row(
        "completion/complete: a template",
        completion({"type": "ref/resource", "uri": "test://page/{number}"}, "number", "1"),
        Seen(result={"completion": {"values": ["1", "10"]}}),
    ),
    # The log's level, subscriptions
    Row(
        "logging/setLevel",
        Ask("logging/setLevel", {"level": "info"}),
        modern=Seen(status=404, code=-32601),
        legacy=Seen(result={}),
    ),
    Row("logging/setLevel: a level that is none", Ask("logging/setLevel", {"level": "loud"}), legacy=Seen(code=-32602)),
    Row(
        "resources/subscribe: a modern client listens instead",
        Ask("resources/subscribe", {"uri": "test://here"}),
        modern=Seen(status=404, code=-32601),
    ),
    # Questions
    Row(
        "a form that is filled in",
        call("ask_name", answers=[accept(name="Ada")]),
        text("Hello, Ada!", asked=("elicitation/create",)),
        since="2025-06-18",
    ),
    Row(
        "a form that is declined",
        call("ask_name", answers=[DECLINE]),
        text("Hello, you!", asked=("elicitation/create",)),
        since="2025-06-18",
    ),
    Row(
        "two questions",
        call("ask_twice", answers=[accept(confirm=True)] * 2),
        text("yes, yes", asked=("elicitation/create",) * 2),
        since="2025-06-18",
    ),
    Row(
        "sampling",
        call("think", answers=[said("It depends.")]),
        text("It depends.", asked=("sampling/createMessage",)),
    ),
    Row(
        "roots",
        call("look_around", answers=[{"roots": [{"uri": "file:///home/ada", "name": "home"}]}]),
        text("file:///home/ada", asked=("roots/list",)),
    ),
    # Streams
    Row(
        "progress",
        call("report", meta=TOKEN),
        Seen(
            result={"content": [{"type": "text", "text": "reported"}]},
            headers=STREAM,
            told=(
                ("notifications/progress", {"progressToken": "t", "progress": 1, "total": 2}),
                ("notifications/progress", {"progressToken": "t", "progress": 2, "total": 2}),
            ),
        ),
    ),
    Row("no progress unless it is wanted", call("report"), Seen(result={"content": ...}, headers=JSON)),
    Row(
        "log messages",
        call("speak", meta={META + "logLevel": "debug"}),
        modern=Seen(
            result={"content": ...},
            headers=STREAM,
            told=tuple(("notifications/message", {"level": level, "data": level}) for level in LEVELS),
        ),
        legacy=Seen(
            result={"content": ...},
            headers=STREAM,
            told=tuple(
                ("notifications/message", {"level": level, "data": level}) for level in LEVELS[LEVELS.index("info") :]
            ),
        ),
    ),
    Row(
        "progress before an error",
        Ask("prompts/get", {"name": "plan", "arguments": {"city": "Atlantis"}, "_meta": TOKEN}),
        Seen(code=-32603, headers=STREAM, told=(("notifications/progress", {"progressToken": "t", "progress": 1}),)),
    ),
    # Notifications
    Row(
        "a notification",
        Send(body=b'{"jsonrpc":"2.0","method":"notifications/initialized"}'),
        Seen(status=202, empty=True),
    ),
    Row(
        "a notification that nobody knows",
        Send(body=b'{"jsonrpc":"2.0","method":"no/such"}'),
        Seen(status=202, empty=True),
    ),
    Row(
        "an answer that nobody waits for",
        Send(body=b'{"jsonrpc":"2.0","id":3,"result":{}}'),
        Seen(status=400, code=-32600),
    ),
    # Bodies
    Row("JSON that does not end", Send(body=b"{"), Seen(status=400, code=-32700, headers=JSON)),
    Row("JSON that is no message", Send(body=b'"text"'), Seen(status=400, code=-32600, headers=JSON)),
    Row("a body that is too large", Send(body=b" " * (MAX_BYTES + 1)), Seen(status=413, headers=JSON)),
    Row("another content type", Send({"content-type": "text/plain"}), Seen(status=415, headers=JSON)),
    # Headers
    Row("a client that takes JSON alone", Send({"accept": "application/json"}), Seen(headers=JSON)),
    Row("a client that takes events alone", Send({"accept": "text/event-stream"}), Seen(headers=STREAM)),
    Row("a client that takes neither", Send({"accept": "text/html"}), Seen(status=406, headers=JSON)),
    Row(
        "a version that nobody has",
        Send({"mcp-protocol-version": "1900-01-01"}, b'{"jsonrpc":"2.0","id":1,"method":"ping"}'),
        Seen(status=400, code=-32022, headers=JSON),
    ),
    Row(
        "headers that contradict the message",
        Send({"mcp-method": "tools/call"}),
        modern=Seen(status=400, code=-32020),
        legacy=Seen(result={"tools": ...}),
    ),
    Row(
        "a session that there is not",
        Send({"mcp-session-id": "nobody's"}),
        modern=Seen(result={"tools": ...}),
        legacy=Seen(status=404, code=-32600),
    ),
    Row("another host", Send({"host": "evil.example.com"}), Seen(status=400)),
    # Browsers
    Row("another origin", Send({"origin": FOREIGN}), Seen(status=403, headers=JSON)),
    Row(
        "the site's own origin",
        Send({"origin": BASE_URL}),
        Seen(result={"tools": ...}, headers={"access-control-allow-origin": BASE_URL, "vary": "Origin"}),
    ),
    Row(
        "a preflight",
        Send({"origin": BASE_URL, "access-control-request-method": "POST", "x-user": "nobody"}, b"", "OPTIONS"),
        Seen(
            status=204,
            headers={
                "access-control-allow-origin": BASE_URL,
                "access-control-allow-methods": "GET, POST, DELETE, OPTIONS",
                "access-control-allow-headers": ...,
            },
            empty=True,
        ),
    ),
    Row("a preflight of another origin", Send({"origin": FOREIGN}, b"", "OPTIONS"), Seen(status=403)),
    # Methods
    Row("GET without a session", Send({"accept": "text/event-stream"}, b"", "GET"), Seen(status=405, headers=JSON)),
    Row(
        "DELETE without a session",
        Send({}, b"", "DELETE"),
        modern=Seen(status=405),
        legacy=Seen(status=400),
    ),
    Row("PUT", Send({}, b"{}", "PUT"), Seen(status=405, headers={"allow": "POST, GET, DELETE, OPTIONS"})),
    # Who may call, and how often
    Row(
        "somebody whom nobody knows",
        Send({"x-user": "nobody"}),
        Seen(status=401, headers={"www-authenticate": ..., **JSON}),
    ),
    Row(
        "one call too many",
        Ask("tools/call", {"name": "often", "arguments": {}}, times=2),
        Seen(status=429, code=-32000, headers={"retry-after": str(LIMITED_TO), **JSON}),
    ),
]
