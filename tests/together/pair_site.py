"""The site on which two features of ``features.py`` meet: books of owners and tenants, and callers who rename them."""

import dataclasses
import itertools
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from django.contrib.auth.models import User
from django.core.cache import cache
from django.db import DEFAULT_DB_ALIAS
from django.db.models import Q, QuerySet
from django.test import Client as Browser
from django.utils import translation

from django_mcp import MCPServer, ModelResource, Principal, RequestHead, register, tool
from django_mcp.approvals.decisions import approve
from django_mcp.approvals.tool_policies import set_policy
from django_mcp.core import server as registry
from django_mcp.core.policies import policy_cache
from django_mcp.core.tool_search import relay_for
from django_mcp.model_resources.receivers import _build_endpoint as start
from django_mcp.models import Approval, Task, ToolPolicy
from django_mcp.protocol.meta import APPROVAL
from tests.behaviour.users import ByName
from tests.clients import META, MODERN, Client
from tests.exchange import eventually
from tests.model_resources.library.models import Author, Book

if TYPE_CHECKING:
    from tests.together.features import Feature

OVER = {"completed", "failed", "cancelled"}
_titles = itertools.count(1)
tenant: ContextVar[str] = ContextVar("tenant", default="none")
current: "list[Site]" = []
"""The site whose endpoints are called, for its views."""


class ByHeaders(ByName):
    """The user, the client, the scopes and whether nothing may change, of headers."""

    def authenticate(self, head: RequestHead, server: object) -> Principal:
        found = super().authenticate(head, server)
        scopes = head.headers.get("x-scopes")
        given: dict[str, Any] = {} if scopes is None else {"scopes": frozenset(scopes.split())}
        return dataclasses.replace(found, read_only="x-read-only" in head.headers, **given)


@dataclass(frozen=True)
class Deed:
    """A tool that gives a book a new title, or reads it.

    Attributes:
        tool: its name.
        book: its argument for the book.
        title: its argument for the title; "" for a tool that reads.
        has_options: False if the package makes it, so that it has no options such as ``task``.
    """

    tool: str
    book: str = "book"
    title: str = "title"
    has_options: bool = True
    of_book: Callable[[Book], Any] = lambda book: book.pk


class Attempt:
    """A call of a deed, which may need to be sent several times."""

    def __init__(self, site: "Site", deed: Deed, by: str, of: str, server: str, **headers: str) -> None:
        self.site, self.deed, self.by, self.server, self.headers = site, deed, by, server, headers
        self.book = site.books[of]
        self.capabilities: Mapping[str, Any] | None = None
        self.meta: dict[str, Any] = {}
        self.accepts = True
        self.title = f"Title {next(_titles)}"
        self.text = ""
        self.result: dict[str, Any] = {}

    def send(self) -> "Attempt":
        """Send it, and answer what it asks."""
        arguments = {self.deed.book: self.deed.of_book(self.book)}
        if self.deed.title:
            arguments[self.deed.title] = self.title
        params = {"name": self.deed.tool, "arguments": arguments}
        if self.site.relays and (found := self.site.server.tools.get(self.deed.tool)) is not None:
            params = {"name": relay_for(found).name, "arguments": params}
        self._take(self.site.request("tools/call", params, self))
        for _ in range(2):
            if self.result.get("resultType") == "input_required":
                given = {"inputResponses": self._answers(), "requestState": self.result.get("requestState")}
                self._take(self.site.request("tools/call", {**params, **given}, self))
        return self

    def _answers(self) -> dict[str, Any]:
        answer = {"action": "accept", "content": {"confirm": True}} if self.accepts else {"action": "decline"}
        return dict.fromkeys(self.result["inputRequests"], answer)

    def _take(self, answer: dict[str, Any]) -> None:
        self.result = answer.get("result", answer)
        self.text = "\n".join(block.get("text", "") for block in self.result.get("content", ())) or str(self.result)

    @property
    def task(self) -> str | None:
        """The id of its task, if it is one."""
        return self.result.get("taskId")

    def task_now(self) -> dict[str, Any]:
        """Its task as its caller reads it."""
        return self.site.request("tasks/get", {"taskId": self.task}, self)["result"]

    @property
    def done(self) -> bool:
        """Whether it has happened."""
        if self.deed.title:
            return Book.objects.get(pk=self.book.pk).title == self.title
        return Book.objects.get(pk=self.book.pk).title in self.text

    def finish(self) -> "Attempt":
        """Send it until it is over; whoever may decide approves it, and its task is waited for."""
        self.send()
        for _ in range(3):
            self.wait()
            if not (APPROVAL in str(self.result) and self.site.approve_all()):
                return self
            self.send()
        raise AssertionError(f"it does not end: {self.result}")

    def succeed(self) -> None:
        """Finish, and fail unless it has happened."""
        assert self.finish().done, self.text

    def wait(self) -> "Attempt":
        """Wait for its task, if it is one, and approve what waits."""
        if self.task is not None:
            self._take(eventually(self._outcome, lambda: f"the task does not end: {self.task_now()}"))
        return self

    def _outcome(self) -> dict[str, Any] | None:
        self.site.approve_all()
        found = self.task_now()
        if found["status"] == "input_required":
            answers = {"taskId": self.task, "inputResponses": {}}
            self.result = {**self.result, "inputRequests": found["inputRequests"]}
            answers["inputResponses"] = self._answers()
            self.site.request("tasks/update", answers, self)
        return {"result": found.get("result") or found} if found["status"] in OVER else None


@dataclass
class Site:
    """What two features share.

    Attributes:
        settings: the fixture.
        make_server: the fixture.
        people: Ann and Ben call, Cleo and Dora decide.
        features: those that meet.
        narrow: conditions of the rows that a caller may see, each a function of the user.
        options: of each tool that the site makes.
        server_options: of the endpoint.
        model: of the books.
        visible: names of the books that Ann sees.
        processes: the endpoints of each process, by name.
        count: of processes.
        relays: whether tools are called through those of tool search.
        undo: what to call at the end.
        seen: language and tenant in which calls looked at rows.
    """

    settings: Any
    make_server: Callable[..., MCPServer]
    people: Mapping[str, User]
    features: "list[Feature]"
    narrow: list[Callable[[Any], Q]] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)
    server_options: dict[str, Any] = field(default_factory=dict)
    resource_options: dict[str, Any] = field(default_factory=dict)
    capabilities: dict[str, Any] = field(default_factory=lambda: {"elicitation": {"form": {}}})
    model: type[Book] = Book
    visible: set[str] = field(default_factory=lambda: {"ann", "ben", "far"})
    processes: list[dict[str, MCPServer]] = field(default_factory=list)
    seen: "list[tuple[str | None, str]]" = field(default_factory=list)
    count: int = 1
    relays: bool = False
    undo: list[Callable[[], object]] = field(default_factory=list)
    resources: list[tuple[Any, type[ModelResource]]] = field(default_factory=list)

    def build(self) -> list[Deed]:
        """Make books and endpoints. Return the deeds."""
        author = Author.objects.create(name="Anna Berg")
        kept = (("ann", "ann", "a"), ("ben", "ben", "a"), ("far", "ann", "b"))
        self.books = {
            name: Book(title=f"Title of {name}", slug=name, author=author, owner=self.people[owner], shelf=shelf)
            for name, owner, shelf in kept
        }
        Book.objects.bulk_create(self.books.values())
        for feature in self.features:
            feature.prepare(self)
        for _ in range(self.count):
            deeds = self.start_process()
        for deed in deeds:
            for feature in self.features:
                feature.decide(self, deed)
        return deeds

    def start_process(self) -> list[Deed]:
        """Make the endpoints of a process. Return the deeds, which are the same in each."""
        for name in ("test", "other"):
            registry._servers.pop(name, None)
        server = self.make_server(authentication=[ByHeaders()], scopes=[], **self.server_options)
        registry.is_started = False  # as while each mcp.py is imported
        for model, resource in [(Book, self.book_resource()), *self.resources]:
            register(model, resource, server=server)
        deeds = [deed for feature in self.features if (deed := feature.offer(self, server)) is not None]
        if not any(deed.has_options for deed in deeds):
            deeds.append(self.add_plain(server))
        registry.is_started = True
        start(server)
        self.processes.append({"test": server})
        for feature in self.features:
            feature.start(self, server)
        return list(dict.fromkeys(deeds))

    def book_resource(self) -> type[ModelResource]:
        """Return how books are offered."""
        site = self

        class BookResource(ModelResource):
            fields = writable_fields = search_fields = ["title"]
            tools = ()
            title_field = "title"
            view_permission = change_permission = None

            def get_queryset(self, ctx: Any) -> QuerySet[Any]:
                return site.rows(ctx.user, self.model)

        return type("BookResource", (BookResource,), self.resource_options)

    def add_plain(self, server: MCPServer) -> Deed:
        """Add a tool that is a function with a row as its argument."""
        site = self

        def retitle(book: Any, title: str) -> str:
            site.note()
            book.title = title
            book.save()
            return f"It is called {title} now."

        retitle.__annotations__["book"] = self.model
        tool(server=server, **self.options)(retitle)
        return Deed("retitle")

    def rows(self, user: Any, model: type[Book] | None = None) -> QuerySet[Any]:
        """The books that a caller may see."""
        self.note()
        found = (model or self.model)._default_manager.all()
        for condition in self.narrow:
            found = found.filter(condition(user))
        return found

    def note(self) -> None:
        """Note what is in effect, in a call: its code runs in a thread of its own."""
        if threading.current_thread() is not threading.main_thread():
            self.seen.append((translation.get_language(), tenant.get()))

    # Calls

    def attempt(self, deed: Deed, by: str = "ann", of: str = "ann", server: str = "test", **headers: str) -> Attempt:
        """A call that was not sent yet."""
        return Attempt(self, deed, by, of, server, **headers)

    def request(self, method: str, params: Mapping[str, Any], attempt: Attempt) -> dict[str, Any]:
        """Send a request to the process whose turn it is, and return the response."""
        process = self.processes.pop(0)
        self.processes.append(process)
        self.enter(process)
        given = self.capabilities if attempt.capabilities is None else attempt.capabilities
        meta = {META + "clientCapabilities": dict(given), **(attempt.meta if method == "tools/call" else {})}
        own = {"x-user": self.people[attempt.by].username, "x-tenant": "a", "accept-language": "en"}
        headers = {**own, **{name.replace("_", "-"): value for name, value in attempt.headers.items()}}
        current[:] = [self]
        client = Client(process[attempt.server], MODERN, "asgi")
        answer: dict[str, Any] = client.request(method, {**params, "_meta": meta}, headers=headers).json
        return answer

    def enter(self, process: dict[str, MCPServer]) -> None:
        """Make a process the one that runs, which has read nothing yet."""
        registry._servers.update(process)
        if len(self.processes) > 1:
            policy_cache.is_read = False
        policy_cache.expire()

    def read(self, tool: str, by: str = "ann", **arguments: Any) -> str:
        """The text of a call that only reads."""
        attempt = self.attempt(Deed(tool), by)
        return str(self.request("tools/call", {"name": tool, "arguments": arguments}, attempt)["result"])

    def knows(self, deed: Deed, by: str = "ann", server: str = "test", **headers: str) -> bool:
        """Whether a caller finds a tool, in the list or by searching."""
        if self.relays:
            attempt = self.attempt(deed, by, server=server, **headers)
            given = {"name": "search_tools", "arguments": {"query": deed.tool}}
            return f"'name': '{deed.tool}'" in str(self.request("tools/call", given, attempt))
        return deed.tool in [entry["name"] for entry in self._list(by, server, **headers)]

    def listed(self, deed: Deed, **headers: str) -> dict[str, Any]:
        """The entry of a tool in the list."""
        return next(entry for entry in self._list("ann", "test", **headers) if entry["name"] == deed.tool)

    def _list(self, by: str, server: str, **headers: str) -> list[dict[str, Any]]:
        attempt = self.attempt(Deed(""), by, server=server, **headers)
        found: list[dict[str, Any]] = self.request("tools/list", {}, attempt)["result"]["tools"]
        return found

    # Decisions

    @property
    def server(self) -> MCPServer:
        return self.processes[0]["test"]

    @property
    def pending(self) -> list[Approval]:
        """What waits for approval."""
        return list(Approval.objects.filter(state="pending"))

    def settle(self) -> None:
        """Wait for tasks that nothing keeps from running."""
        eventually(lambda: not Task.objects.filter(status="working").exists(), "a task does not end")

    def approve_all(self) -> int:
        """Approve what waits. Return how many did."""
        pending = self.pending
        for approval in pending:
            assert approve(approval, self.people["cleo"], unseen=True)
        return len(pending)

    @contextmanager
    def policy(self, deed: Deed, decision: str | None, **whom: Any) -> Iterator[None]:
        """Decide about a tool, for a time."""
        which = {"server": "test", "tool": deed.tool, "client_id": whom.get("client_id", "")}
        before = ToolPolicy.objects.filter(**which).values_list("decision", flat=True).first()
        set_policy(self.server, self.server.tools[deed.tool], decision, **whom)
        yield
        set_policy(self.server, self.server.tools[deed.tool], before, **whom)

    def browser(self, name: str) -> Browser:
        browser = Browser()
        browser.force_login(self.people[name])
        return browser

    def clean(self) -> None:
        """Delete what the site made."""
        for undo in self.undo:
            undo()
        cache.clear()
        Book.objects.all()._raw_delete(DEFAULT_DB_ALIAS)
        Author.objects.all()._raw_delete(DEFAULT_DB_ALIAS)
