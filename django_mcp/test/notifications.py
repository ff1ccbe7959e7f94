"""``MCPClient.subscribe``: notifications read from the event log after the test's changes."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial

from asgiref.sync import async_to_sync, sync_to_async
from django.db import connections
from django.test import TestCase

from django_mcp.client.in_process import head_of, permission_context
from django_mcp.core.concurrency import INLINE
from django_mcp.core.context import Context
from django_mcp.core.principal import Principal
from django_mcp.core.resources import find_known
from django_mcp.core.server import MCPServer
from django_mcp.model_resources.notifications import start_new_batch
from django_mcp.pubsub import event_store, publish
from django_mcp.revisions.base import MCPRequest
from django_mcp.revisions.subscriptions import SubscriptionFilter
from django_mcp.transports.sse import BufferedResponse


@dataclass
class Notifications:
    """Notifications of a subscription, filled at the end of the ``with`` block.

    Attributes:
        updated: URIs of changed resources, in the order received.
        lists: changed lists: ``"tools"``, ``"prompts"``, ``"resources"``.
    """

    updated: list[str] = field(default_factory=list)
    lists: list[str] = field(default_factory=list)


class _TestSubscriptionFilter(SubscriptionFilter):
    """Queries in the test's thread: other threads do not see its transaction."""

    __slots__ = ()

    async def known_uris(self, uris: Iterable[str]) -> set[str] | None:
        return set(await sync_to_async(partial(find_known, self.context, list(uris), afresh=True))())

    @property
    def context(self) -> Context:
        return permission_context(self._server, self._principal, self._get_django_request(), "resources/subscribe")


@contextmanager
def subscribed(
    server: MCPServer, principal: Principal, headers: Mapping[str, str], uris: Iterable[str]
) -> Iterator[Notifications]:
    """Subscribe to resources and to list changes.

    Callbacks on commit run at the end, because a ``TestCase`` never commits.
    """
    head = head_of(server, "GET", headers)
    mcp_request = MCPRequest(
        server, principal, INLINE, head.get_django_request, {}, None, BufferedResponse(takes_events=True, can_hold=True)
    )
    stream = _TestSubscriptionFilter(mcp_request, [publish.list_changed_method(kind) for kind in publish.KINDS], None)
    stream.add(uris)
    if missing := set(stream.uris) - set(find_known(stream.context, list(stream.uris))):
        msg = f"Cannot subscribe: there is no resource {', '.join(sorted(missing))} for this caller."
        raise AssertionError(msg)
    heard, since = Notifications(), event_store.newest()
    with ExitStack() as stack:
        for alias in connections:
            if connections[alias].in_atomic_block:
                start_new_batch(connections[alias])
                stack.enter_context(TestCase.captureOnCommitCallbacks(using=alias, execute=True))
        yield heard
    for notice in async_to_sync(stream.notifications_for)(event_store.after(since, [publish.server_topic(server)])):
        if notice.method == publish.UPDATED:
            heard.updated.append(notice.params["uri"])
        else:
            heard.lists.append(notice.method.split("/")[1])
