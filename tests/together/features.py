"""Features that meet, one class each. ``test_pairs.py`` makes a test of each two: a further feature is a class here."""

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, ClassVar

from django import forms
from django.core.cache import cache
from django.db.models import Q
from django.db.models.signals import post_save
from django.http import HttpRequest
from django.utils.translation import gettext_lazy

from django_mcp import Context, MCPServer, ModelResource, Principal, ToolError, form_tool, tool, view_tool
from django_mcp.approvals.decisions import approve, deny
from django_mcp.approvals.tool_policies import set_policy
from django_mcp.audit.recorder import Recorder
from django_mcp.core import dispatch
from django_mcp.core.execution import slots_of
from django_mcp.core.throttling import count
from django_mcp.models import Approval, RequestLog
from django_mcp.protocol.errors import TooManyRequests
from django_mcp.protocol.meta import APP_HTML, APPS, APPS_SETTINGS, IDEMPOTENCY_KEY
from tests.admin.tools_page import TOOLS, send, shown_by, words
from tests.exchange import eventually
from tests.model_resources.library.models import Book, Volume
from tests.settings import TEMPLATES
from tests.tasks.clients import knows_tasks
from tests.together.pair_site import ByHeaders, Deed, Site, current, tenant
from tests.together.test_policies_and_administrators import stored, undo_of, yes

LIMIT = 30

FEATURES: "dict[str, type[Feature]]" = {}


class Feature:
    """One feature, and what of it a user would notice."""

    needs_options: ClassVar[bool] = False
    """Whether it is an option of a tool, so that tools that the package makes cannot have it."""
    is_slow: ClassVar[bool] = False
    """Whether its pairs are left to ``make test-all``: they visit pages of the admin, or are much like others."""

    def __init_subclass__(cls) -> None:
        FEATURES[cls.__name__] = cls

    def prepare(self, site: Site) -> None:
        """Set up what has to be there before the endpoint."""

    def offer(self, site: Site, server: MCPServer) -> Deed | None:
        """Add the feature's own tool, if it has one."""

    def start(self, site: Site, server: MCPServer) -> None:
        """Set up what comes after the endpoint, in each process."""

    def decide(self, site: Site, deed: Deed) -> None:
        """Do what the administrator does about a tool."""

    def holds(self, site: Site, deed: Deed) -> None:
        """Assert what a user would notice, with the other feature in place."""
        raise NotImplementedError


class RowRules(Feature):
    """Callers see their own books only."""

    def prepare(self, site: Site) -> None:
        site.narrow.append(lambda user: Q(owner=user.pk))
        site.visible.discard("ben")
        site.resource_options["actions"] = ["update"]

    def offer(self, site: Site, server: MCPServer) -> Deed:
        return Deed("update_book", "pk", has_options=False)

    def holds(self, site: Site, deed: Deed) -> None:
        site.attempt(deed).succeed()
        foreign = site.attempt(deed, of="ben").finish()
        assert not foreign.done
        assert "of ben" not in foreign.text
        assert re.search("not found|no .* with", foreign.text, re.IGNORECASE), foreign.text


class Limits(Feature):
    """One call at a time, and thirty a day."""

    def prepare(self, site: Site) -> None:
        site.options["concurrency_limit"] = 1
        site.server_options["rate_limit"] = f"{LIMIT}/d"

    def holds(self, site: Site, deed: Deed) -> None:
        cache.clear()
        found = (slots_of(process["test"].tools[deed.tool]) for process in site.processes)
        slots = [slot for slot in found if slot is not None]
        assert all(eventually(slot.acquire, "the slot of an earlier task is not given back") for slot in slots)
        attempt = site.attempt(deed).send()
        site.approve_all()
        assert not (slots and attempt.send().done)
        for server in site.processes[0] if slots else ():
            assert not site.attempt(deed, server=server).send().done
        for slot in slots:
            slot.release()
        attempt.succeed()
        ann = site.people["ann"]
        with suppress(TooManyRequests):
            for _ in range(LIMIT):
                count(site.server, site.server.tools[deed.tool], Principal("test", ann.username, ann))
        late = site.attempt(deed).send()
        assert "Too many calls" in late.text
        assert not late.done
        site.attempt(deed, by="ben", of="ben").succeed()
        cache.clear()


class Policies(Feature):
    """A tool is blocked for one client, in the admin."""

    def decide(self, site: Site, deed: Deed) -> None:
        set_policy(site.server, site.server.tools[deed.tool], "block", client_id="robot")

    def holds(self, site: Site, deed: Deed) -> None:
        refused = site.attempt(deed, x_client="robot").finish()
        assert not refused.done
        assert "nknown tool" in refused.text
        assert not site.knows(deed, x_client="robot")
        assert site.knows(deed)
        waiting = site.attempt(deed, x_client="other").send()
        if not site.pending:
            waiting.wait()
        else:
            with site.policy(deed, "block", client_id="other"):
                site.approve_all()
                site.settle()
                assert "nknown tool" in site.attempt(deed, x_client="other").send().text
            assert not waiting.done
        site.attempt(deed).succeed()


class Approvals(Feature):
    """Each call needs the approval of Cleo."""

    def decide(self, site: Site, deed: Deed) -> None:
        set_policy(site.server, site.server.tools[deed.tool], "ask")

    def holds(self, site: Site, deed: Deed) -> None:
        before = Approval.objects.count()
        attempt = site.attempt(deed).send()
        assert Approval.objects.count() == before + 1, attempt.text
        assert not attempt.done
        assert deny(Approval.objects.latest("pk"), site.people["cleo"], reason="Not today.")
        refused = attempt.finish()
        assert not refused.done
        assert "Not today." in str(refused.result)
        site.settle()  # the first task may still be writing that it was denied
        Approval.objects.all().delete()  # or a call without a title would be the same as this one
        site.attempt(deed).succeed()
        assert Approval.objects.count() == 1
        attempt = site.attempt(deed).send()
        assert not attempt.done
        attempt.wait()  # or the next feature would approve this task too, which could happen after its own


class Undo(Feature):
    """An administrator takes back what she decided on the page of all tools."""

    is_slow = True

    def holds(self, site: Site, deed: Deed) -> None:
        before, browser = stored(), site.browser("cleo")
        page = send(browser, TOOLS, {f"policy:test.{deed.tool}": "block"})
        assert "nknown tool" in site.attempt(deed).finish().text
        page = send(browser, TOOLS, {"undo": undo_of(page)}, shown={})
        if "Allow more than now?" in page:
            page = yes(browser, TOOLS, page)
        assert stored() == before
        site.attempt(deed).succeed()


class Tasks(Feature):
    """Calls run in the background."""

    needs_options = True

    def prepare(self, site: Site) -> None:
        site.options["task"] = "optional"
        site.capabilities = knows_tasks()

    def holds(self, site: Site, deed: Deed) -> None:
        attempt = site.attempt(deed).send()
        task = attempt.task
        assert task is not None, attempt.text
        assert attempt.wait().done, attempt.text
        foreign = site.attempt(deed, by="ben")
        assert "error" in site.request("tasks/get", {"taskId": task}, foreign)


TEMPLATE = "{% load i18n %}{% get_current_language as spoken %}<h1>{{ result }}</h1><i>{{ spoken }}</i>"


class Apps(Feature):
    """Clients with MCP Apps get a view of the result, in their language."""

    needs_options = True

    def prepare(self, site: Site) -> None:
        loaders = [("django.template.loaders.locmem.Loader", {"pairs.html": TEMPLATE})]
        loaders.append("django.template.loaders.app_directories.Loader")
        engine = {**TEMPLATES[0], "APP_DIRS": False}
        site.settings.TEMPLATES = [{**engine, "OPTIONS": {**engine["OPTIONS"], "loaders": loaders}}]
        site.options["app"] = "pairs.html"

    def holds(self, site: Site, deed: Deed) -> None:
        attempt = site.attempt(deed, accept_language="de")
        extensions = {**site.capabilities.get("extensions", {}), APPS: APPS_SETTINGS}
        attempt.capabilities = {**site.capabilities, "extensions": extensions}
        attempt.succeed()
        html = attempt.result["_meta"][APP_HTML]
        assert attempt.title in html
        assert "<i>de</i>" in html
        for attempt.server in site.processes[0]:
            page = site.request("resources/read", {"uri": "ui://pairs.html"}, attempt)["result"]["contents"][0]
            assert "<!doctype html>" in page["text"].lower()
        plain = site.attempt(deed).finish()
        assert plain.done
        assert APP_HTML not in plain.result.get("_meta", {})


class Connector(Feature):
    """ChatGPT searches books and fetches them."""

    def prepare(self, site: Site) -> None:
        site.resource_options["connector"] = True

    def offer(self, site: Site, server: MCPServer) -> Deed:
        return Deed("fetch", "id", "", has_options=False, of_book=book_id)

    def holds(self, site: Site, deed: Deed) -> None:
        site.attempt(deed).succeed()
        found = re.findall(r"library\.book:\d+", site.read("search", query="Title"))
        assert {*found} == {book_id(site.books[name]) for name in site.visible}


def book_id(book: Book) -> str:
    return f"library.book:{book.pk}"


class TitleForm(forms.ModelForm):
    class Meta:
        model = Book
        fields = ("title",)

    def save(self, commit: bool = True) -> Any:
        current[0].note()
        return super().save(commit)


class Forms(Feature):
    """A form is a tool."""

    def offer(self, site: Site, server: MCPServer) -> Deed:
        meta = type("Meta", (TitleForm.Meta,), {"model": site.model})
        form = type("TitleForm", (TitleForm,), {"Meta": meta})
        form_tool(form, name="fill_in", lookup="pk", permission=None, server=server, **site.options)
        return Deed("fill_in", "pk")

    def holds(self, site: Site, deed: Deed) -> None:
        site.attempt(deed).succeed()
        if deed.tool == "fill_in":
            empty = site.attempt(deed)
            empty.title = ""
            assert "title" in empty.finish().text
            assert not empty.done


class RowForm(forms.Form):
    title = forms.CharField(max_length=200)

    def __init__(self, *args: Any, book: Book, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.book = book

    def save(self) -> str:
        current[0].note()
        self.book.title = self.cleaned_data["title"]
        self.book.save()
        return f"It is called {self.book.title} now."


class FormsOfARow(Feature):
    """A form is a tool, and callers name the row that it belongs to."""

    def offer(self, site: Site, server: MCPServer) -> Deed:
        parents = {"book": site.model}
        form_tool(RowForm, name="retitle", parents=parents, destructive=True, server=server, **site.options)
        return Deed("retitle", "book")

    def holds(self, site: Site, deed: Deed) -> None:
        site.attempt(deed).succeed()
        if deed.tool == "retitle" and "ben" not in site.visible:
            foreign = site.attempt(deed, of="ben").finish()
            assert not foreign.done
            assert re.search("No .* with primary key", foreign.text), foreign.text


def every_book(self: Any, ctx: Any, queryset: Any, value: bool) -> Any:
    return queryset.model._base_manager.all()  # also what the caller may not see


class FilterMethods(Feature):
    """Books have a filter of the site's own."""

    def prepare(self, site: Site) -> None:
        site.resource_options |= {"filterset_fields": ["every"], "filter_every": every_book}
        site.resource_options.setdefault("tools", ["search"])

    def holds(self, site: Site, deed: Deed) -> None:
        site.attempt(deed).succeed()
        found = {*re.findall(r"'pk': (\d+)", site.read("search_books", every=True))}
        assert found == {str(site.books[name].pk) for name in site.visible}


class Redirects(Feature):
    """A view is a tool, and redirects to another one, which shows the title."""

    def prepare(self, site: Site) -> None:
        site.settings.ROOT_URLCONF = "tests.together.pair_urls"

    def offer(self, site: Site, server: MCPServer) -> Deed:
        view_tool("pairs:title", name="post", method="POST", arguments={"title": str}, server=server, **site.options)
        return Deed("post", "pk")

    def holds(self, site: Site, deed: Deed) -> None:
        attempt = site.attempt(deed)
        attempt.succeed()
        if deed.tool == "post":
            assert f"A page of {attempt.title}" in attempt.text


class VolumeResource(ModelResource):
    fields = writable_fields = search_fields = ["title"]
    tools = ["search"]
    actions = ["update"]
    view_permission = change_permission = None


class Proxies(Feature):
    """The rows have another class too."""

    def prepare(self, site: Site) -> None:
        site.model = Volume
        site.resources.append((Volume, VolumeResource))

    def offer(self, site: Site, server: MCPServer) -> Deed:
        return Deed("update_volume", "pk", has_options=False)

    def holds(self, site: Site, deed: Deed) -> None:
        site.attempt(deed).succeed()
        volumes = {*re.findall(r"'pk': (\d+)", site.read("search_volumes"))}
        assert volumes == {str(site.books[name].pk) for name in site.visible}


class Languages(Feature):
    """All that a call does is in the caller's language, and lists are."""

    def prepare(self, site: Site) -> None:
        site.options["title"] = gettext_lazy("Change")

    def holds(self, site: Site, deed: Deed) -> None:
        for language, title in (("de", "Ändern"), ("en", "Change"), ("de", "Ändern")):
            site.seen.clear()
            site.attempt(deed, accept_language=language).succeed()
            assert {spoken for spoken, _ in site.seen} == {language}
            if deed.has_options and not site.relays:
                assert site.listed(deed, accept_language=language)["title"] == title


class Tenants(Feature):
    """Around each call the site chooses the tenant, by a header."""

    def prepare(self, site: Site) -> None:
        given = {"CALL_CONTEXT_MANAGERS": [within_tenant], "TENANT": f"{__name__}.chosen_tenant"}
        site.settings.DJANGO_MCP = {**site.settings.DJANGO_MCP, **given}
        site.narrow.append(lambda user: Q(shelf=tenant.get()))
        site.visible.discard("far")

    def holds(self, site: Site, deed: Deed) -> None:
        site.seen.clear()
        site.attempt(deed).succeed()
        assert {name for _, name in site.seen} == {"a"}
        assert not site.attempt(deed, of="far").finish().done
        site.attempt(deed, of="far", x_tenant="b").succeed()


def chosen_tenant(request: HttpRequest) -> str:
    return tenant.get()


@contextmanager
def within_tenant(request: HttpRequest) -> Iterator[None]:
    token = tenant.set(request.headers["X-Tenant"])
    try:
        yield
    finally:
        tenant.reset(token)


class SecondEndpoint(Feature):
    """Another endpoint has the same tools, with policies of its own."""

    def start(self, site: Site, server: MCPServer) -> None:
        site.processes[-1]["other"] = site.make_server(
            "other", authentication=[ByHeaders()], scopes=[], source=server, search_tools=site.relays
        )

    def holds(self, site: Site, deed: Deed) -> None:
        site.attempt(deed, server="other").succeed()
        with site.policy(deed, "block"):
            assert not site.attempt(deed).finish().done
            assert not site.knows(deed)
            site.attempt(deed, server="other").succeed()
        waiting = site.attempt(deed).send()
        if waiting.task is not None:
            foreign = site.attempt(deed, server="other")
            assert "error" in site.request("tasks/get", {"taskId": waiting.task}, foreign)
        waiting.succeed()


class SecondAdministrator(Feature):
    """What Dora decides is not overwritten by Cleo, whose page is older."""

    is_slow = True

    def holds(self, site: Site, deed: Deed) -> None:
        browser = site.browser("cleo")
        shown = shown_by(browser, TOOLS)
        with site.policy(deed, "block", user=site.people["dora"]):
            page = words(send(browser, TOOLS, {f"policy:test.{deed.tool}": "allow"}, shown=shown))
            assert "Nothing was changed" in page
            assert not site.attempt(deed).finish().done
        attempt = site.attempt(deed).send()
        for approval in Approval.objects.filter(state="pending"):
            assert approve(approval, site.people["dora"], unseen=True)
            assert not deny(approval, site.people["cleo"])
        attempt.succeed()


class SecondProcess(Feature):
    """Each request comes to the other one of two processes."""

    def prepare(self, site: Site) -> None:
        site.count = 2

    def holds(self, site: Site, deed: Deed) -> None:
        for _ in range(3):
            site.attempt(deed).succeed()


class AsyncTools(Feature):
    """A tool is a coroutine function."""

    def offer(self, site: Site, server: MCPServer) -> Deed:
        async def rename(book: Any, title: str) -> str:
            site.note()
            book.title = title
            await book.asave()
            return f"It is called {title} now."

        rename.__annotations__["book"] = site.model
        tool(server=server, **site.options)(rename)
        return Deed("rename")

    def holds(self, site: Site, deed: Deed) -> None:
        site.attempt(deed).succeed()


class Questions(Feature):
    """A tool asks its caller before it does anything."""

    def offer(self, site: Site, server: MCPServer) -> Deed:
        def ask_first(book: Any, title: str, ctx: Context) -> str:
            site.note()
            if not ctx.confirm(f"Call it {title}?", key="sure"):
                return "It keeps its title."
            book.title = title
            book.save()
            return f"It is called {title} now."

        ask_first.__annotations__["book"] = site.model
        tool(server=server, **site.options)(ask_first)
        return Deed("ask_first")

    def holds(self, site: Site, deed: Deed) -> None:
        site.attempt(deed).succeed()
        if deed.tool == "ask_first":
            declined = site.attempt(deed)
            declined.accepts = False
            assert not declined.finish().done
            site.attempt(deed).succeed()


class IdempotencyKeys(Feature):
    """A call that is sent again with its key has its result again, and does nothing."""

    def holds(self, site: Site, deed: Deed) -> None:
        attempt = site.attempt(deed)
        attempt.meta = {IDEMPOTENCY_KEY: attempt.title}
        attempt.succeed()
        text = attempt.text
        site.attempt(deed).succeed()
        again = attempt.finish()
        assert again.text == text
        assert not (deed.title and again.done)


class ToolSearch(Feature):
    """Callers search the tools, and call what they found through another one."""

    def prepare(self, site: Site) -> None:
        site.relays = True
        site.server_options["search_tools"] = True

    def holds(self, site: Site, deed: Deed) -> None:
        assert site.knows(deed)
        site.attempt(deed).succeed()


class Log(Feature):
    """Each call is in the request log, once, as what became of it."""

    def prepare(self, site: Site) -> None:
        dispatch.observer = Recorder()

    def holds(self, site: Site, deed: Deed) -> None:
        RequestLog.objects.all().delete()
        attempt = site.attempt(deed)
        attempt.succeed()
        rows = list(RequestLog.objects.filter(method="tools/call"))
        assert {row.outcome for row in rows} <= {"ok", "waiting", "task", "asked"}
        (row,) = (row for row in rows if row.outcome == "ok")
        assert (row.name, row.user, row.address) == (deed.tool, site.people["ann"], "127.0.0.1")
        assert not deed.title or attempt.title in str(row.arguments)
        site.attempt(Deed("no_such_tool")).send()
        assert RequestLog.objects.filter(outcome__in=["rejected", "error"], error__contains="no_such_tool").count() == 1


class Scopes(Feature):
    """A tool requires a scope that some tokens lack."""

    is_slow = True
    needs_options = True

    def prepare(self, site: Site) -> None:
        site.options["scopes"] = ["travel:write"]

    def holds(self, site: Site, deed: Deed) -> None:
        refused = site.attempt(deed, x_scopes="travel:read").finish()
        assert not refused.done
        assert "nknown tool" in refused.text
        assert not site.knows(deed, x_scopes="travel:read")
        site.attempt(deed, x_scopes="travel:write").succeed()
        site.attempt(deed).succeed()


class Visibility(Feature):
    """A function of the site hides a tool from some callers."""

    is_slow = True
    needs_options = True

    def prepare(self, site: Site) -> None:
        def is_visible(ctx: Context) -> bool:
            site.note()
            return ctx.principal.client_id != "blind"

        site.options["visible"] = is_visible

    def holds(self, site: Site, deed: Deed) -> None:
        refused = site.attempt(deed, x_client="blind").finish()
        assert not refused.done
        assert "nknown tool" in refused.text
        assert not site.knows(deed, x_client="blind")
        site.attempt(deed).succeed()


class ReadOnlyCredentials(Feature):
    """Some credentials open only what changes nothing."""

    is_slow = True

    def holds(self, site: Site, deed: Deed) -> None:
        attempt = site.attempt(deed, x_read_only="1").finish()
        assert attempt.done == (not deed.title), attempt.text
        assert site.knows(deed, x_read_only="1") == (not deed.title)
        site.attempt(deed).succeed()


class Crashes(Feature):
    """The site's code fails after it has written something, which is rolled back with the tool's transaction."""

    def prepare(self, site: Site) -> None:
        post_save.connect(fail, dispatch_uid="pairs")
        site.undo.append(lambda: post_save.disconnect(fail, dispatch_uid="pairs"))

    def holds(self, site: Site, deed: Deed) -> None:
        if deed.title:
            failing = site.attempt(deed)
            failing.title = failing.title.replace("Title", "Fail")
            failing.finish()
            called = site.server.tools[deed.tool]
            assert failing.done == (called.function.is_async or not called.atomic), "only a transaction is rolled back"
            assert "Internal server error" in failing.text
        site.attempt(deed).succeed()


def fail(instance: Any, **_: Any) -> None:
    if isinstance(instance, Book) and instance.title.startswith("Fail"):
        raise LookupError


class ExceptionHandlers(Feature):
    """The site says what callers read of its own exceptions."""

    is_slow = True

    def prepare(self, site: Site) -> None:
        site.settings.DJANGO_MCP = {**site.settings.DJANGO_MCP, "EXCEPTION_HANDLER": f"{__name__}.of_the_library"}
        post_save.connect(close, dispatch_uid="closed")
        site.undo.append(lambda: post_save.disconnect(close, dispatch_uid="closed"))

    def holds(self, site: Site, deed: Deed) -> None:
        if deed.title:
            refused = site.attempt(deed)
            refused.title = refused.title.replace("Title", "Shut")
            refused.finish()
            assert "Closed on Sundays." in refused.text
        site.attempt(deed).succeed()


class Closed(Exception):
    """An exception of the site's services."""


def close(instance: Any, **_: Any) -> None:
    if isinstance(instance, Book) and instance.title.startswith("Shut"):
        raise Closed("Closed on Sundays.")


def of_the_library(error: Exception, ctx: Any) -> ToolError | None:
    return ToolError(str(error)) if isinstance(error, Closed) else None
