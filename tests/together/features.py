"""Features that meet, one class each. ``test_pairs.py`` makes a test of each two: a further feature is a class here."""

import re
from contextlib import suppress
from typing import ClassVar

from django.core.cache import cache
from django.db.models import Q

from django_mcp import MCPServer, Principal
from django_mcp.approvals.decisions import deny
from django_mcp.approvals.tool_policies import decide
from django_mcp.core.execution import slots_of
from django_mcp.core.throttling import count
from django_mcp.models import Approval
from django_mcp.protocol.errors import TooManyRequests
from tests.admin.test_tools import TOOLS, send
from tests.tasks.clients import knows_tasks
from tests.together.pair_site import Deed, Site
from tests.together.test_policies_and_administrators import stored, undo_of, yes

LIMIT = 30

FEATURES: "dict[str, type[Feature]]" = {}


class Feature:
    """One feature, and what of it a user would notice."""

    needs_options: ClassVar[bool] = False
    """Whether it is an option of a tool, so that tools that the package makes cannot have it."""

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

    def offer(self, site: Site, server: MCPServer) -> Deed:
        return Deed("update_book" if site.model.__name__ == "Book" else "update_novel", "pk", has_options=False)

    def holds(self, site: Site, deed: Deed) -> None:
        site.attempt(deed).succeed()
        foreign = site.attempt(deed, of="ben").finish()
        assert not foreign.done
        assert "Of ben" not in foreign.text
        assert re.search("not found|No \\w+ with|There is no", foreign.text), foreign.text


class Limits(Feature):
    """One call at a time, and thirty a day."""

    def prepare(self, site: Site) -> None:
        site.options["concurrency_limit"] = 1
        site.server_options["rate_limit"] = f"{LIMIT}/d"

    def holds(self, site: Site, deed: Deed) -> None:
        cache.clear()
        found = (slots_of(process["test"].tools[deed.tool]) for process in site.processes)
        slots = [slot for slot in found if slot is not None]
        assert all(slot.take() for slot in slots)
        attempt = site.attempt(deed).send()
        site.approve_all()
        assert not (slots and attempt.send().done)
        for slot in slots:
            slot.give_back()
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
        decide(site.server, site.server.tools[deed.tool], "block", client_id="robot")

    def holds(self, site: Site, deed: Deed) -> None:
        refused = site.attempt(deed, x_client="robot").finish()
        assert not refused.done
        assert "nknown tool" in refused.text
        assert deed.tool not in site.names(x_client="robot")
        assert deed.tool in site.names()
        site.attempt(deed).succeed()


class Approvals(Feature):
    """Each call needs the approval of Cleo."""

    def decide(self, site: Site, deed: Deed) -> None:
        decide(site.server, site.server.tools[deed.tool], "ask")

    def holds(self, site: Site, deed: Deed) -> None:
        before = Approval.objects.count()
        attempt = site.attempt(deed).send()
        assert Approval.objects.count() == before + 1, attempt.text
        assert not attempt.done
        assert deny(Approval.objects.latest("pk"), site.people["cleo"], reason="Not today.")
        refused = attempt.finish()
        assert not refused.done
        assert "Not today." in str(refused.result)
        site.attempt(deed).succeed()
        assert Approval.objects.count() == before + 2
        assert not site.attempt(deed).send().done


class Undo(Feature):
    """An administrator takes back what she decided on the page of all tools."""

    def holds(self, site: Site, deed: Deed) -> None:
        before, browser = stored(), site.browser("cleo")
        page = send(browser, TOOLS, {f"policy:test.{deed.tool}": "block"})
        assert "nknown tool" in site.attempt(deed).finish().text
        page = send(browser, TOOLS, {"undo": undo_of(page)})
        if "Loosen policies?" in page:
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
