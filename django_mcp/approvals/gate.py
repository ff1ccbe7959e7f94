"""The approval gate: decides whether a call may run, waits, or returns an error.

A call runs if an approver approved exactly this call of this caller, or if an auto-approval rule covers it. Otherwise
it gets one approval request, however often it is repeated. What the client receives depends on what it supports: a task
that continues after the decision, a link to a page, a response that waits, or an error that says how to retry.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from django.utils import timezone

from django_mcp.approvals import approval_requests, auto_approvals, messages
from django_mcp.approvals.decisions import create_pending_task
from django_mcp.approvals.fingerprint import ModelArgument, addressed, digest, is_same, parts, version
from django_mcp.approvals.previews import Plain, is_of_package, is_still_so, preview_of
from django_mcp.conf import settings
from django_mcp.core import database
from django_mcp.core.channel import no_waiting
from django_mcp.core.context import Context
from django_mcp.core.elicitation import URLElicitation
from django_mcp.core.execution import idempotency_record
from django_mcp.core.permissions import find_rule, may_use
from django_mcp.core.policies import ApprovalGrant, Decision, Rule, policy_cache
from django_mcp.core.resources import refresh_principal
from django_mcp.models import Approval, AutoApprovalRule
from django_mcp.primitives.base import ToolError
from django_mcp.primitives.tool import Tool
from django_mcp.protocol.jsonrpc import Result
from django_mcp.pubsub import event_store, publish
from django_mcp.pubsub.waiting import wait_for
from django_mcp.tasks.api import run_before


async def wait(context: Context, approval: Approval, seconds: float) -> Approval:
    """Wait at most ``seconds`` for a decision. Return the current approval request."""
    # Zero, as progress must increase: the tool reports its own later.
    context.report_progress(0, message=messages.short_text(context, approval))
    topic = approval_requests.topic(approval.public_id)
    return await wait_for(context, topic, partial(_look, approval), _is_decided, seconds)


def is_still_there(context: Context, since: int) -> bool:
    """Return True if a caller who waited may still call. Refresh the context's principal and the policies.

    *since* is the id of the newest event when the call arrived.
    """
    principal = refresh_principal(context.principal, context.server)
    if principal is None or (principal.expires is not None and principal.expires <= timezone.now()):
        return False
    if any(entry.data == publish.REVOKED for entry in event_store.after(since, publish.revocation_topics(principal))):
        return False
    context.principal = principal
    if policy_cache.is_due:
        policy_cache.reload_if_due()
    return True


def _look(approval: Approval) -> Approval:
    approval.refresh_from_db()
    return approval


def _is_decided(approval: Approval) -> bool:
    return approval.state != Approval.State.PENDING


State = Approval.State


class RequestGrant(ApprovalGrant):
    """A grant by an approval request, for a call.

    The call's rows are those that the arguments addressed when the request was matched.
    """

    def __init__(self, approval: Approval, call: "_Call") -> None:
        self._approval, self._call, self._rows = approval, call, call.rows
        self._dialogue = call.context.channel.dialogue
        self._is_shown = approval.preview is None or not is_of_package(call.tool)
        self.public_id = approval.public_id

    def use(self) -> None:
        if not approval_requests.use(self._approval, self._dialogue.id, self._dialogue.round):
            raise messages.used()

    def require_same(self, argument: str, rows: Any) -> None:
        if argument not in self._rows or not is_same(rows, self._rows[argument]):
            raise messages.moved(self._approval, argument)
        # The first time, the row is locked, so it is also compared with what the approver saw.
        if not self._is_shown:
            self._is_shown = True
            call = self._call
            if not is_still_so(call.context, call.tool, call.keywords, self._approval.preview):
                raise messages.changed(self._approval)

    def ended(self, outcome: str) -> None:
        approval_requests.record_outcome(self._approval, outcome)


class AutoApprovalGrant(RequestGrant):
    """A grant by an auto-approval rule, which loses one call."""

    def __init__(self, approved: AutoApprovalRule, fields: Mapping[str, Any], call: "_Call") -> None:
        self._rule, self._request_fields, self._call, self._rows = approved, fields, call, call.rows
        self._dialogue = call.context.channel.dialogue
        self._is_shown = True  # a rule approved the call without a preview, so there is none to compare

    def use(self) -> None:
        made = auto_approvals.use_rule(self._rule, self._request_fields, self._dialogue.id, self._dialogue.round)
        if made is None:
            raise messages.used()
        self._approval, self.public_id = made, made.public_id


async def admit(context: Context, tool: Tool, keywords: dict[str, Any], rule: Rule) -> Result | None:
    """Check, wait for or request the approval of a call; see ``core.dispatch.ApprovalGate``.

    Raises:
        ToolError: the call was denied or its approval expired, the caller has too many pending requests, or the caller
            is anonymous, so that its approval could be used by anyone.
        InputRequired: the client should open the request's status page.
    """
    if not database.has_database():
        msg = "This call requires approval, and this site has no database to store approval requests. Do not retry."
        raise ToolError(msg)
    call = _Call(context, tool, keywords, rule)
    if rule.decision is Decision.ALLOW and not context.channel.needs_approval:
        return await call.as_task(None)
    if context.principal.is_anonymous:
        raise messages.anonymous()
    return await call.answer()


class _Call:
    """A call whose tool's policy requires approval."""

    def __init__(self, context: Context, tool: Tool, keywords: dict[str, Any], rule: Rule) -> None:
        self.context, self.tool, self.keywords = context, tool, keywords
        self.version = version(tool, rule)
        # Set by _look().
        self.digest = ""
        self.parts: dict[str, str] = {}
        self.rows: ModelArgument = {}
        self._since = 0  # id of the newest event when the call arrived

    async def answer(self) -> Result | None:
        """Return the response to the call, or None if it may run."""
        context = self.context
        kept, found = await context.site_runner.checks.sync(self._look)  # it looks up rows
        if kept is not None:
            return Result(kept)
        if context.grant is not None:
            return await self.as_task(found)
        kind = messages.PENDING
        if found is None:
            if context.channel.is_task:  # a task is created for an approved or pending call only
                raise messages.expired()
            context.channel.wants_task(self.tool.task or "optional")  # raises if the client cannot call the tool
            await context.runner.checks.sync(partial(approval_requests.check_limit, context))
            await run_before(context, self.tool, self.keywords)
            kind = messages.REQUIRED
            found = await self._create_request()
        return await self._answer_decision(found, kind)

    def _stored_result(self) -> dict[str, Any] | None:
        idempotency = idempotency_record(self.context, self.tool, self.context.params.get("arguments") or {})
        return None if idempotency is None else idempotency.stored()

    def _look(self) -> tuple[dict[str, Any] | None, Approval | None]:
        """Return the stored result of the same call, or else its approval request.

        A request or rule that approves the call becomes the context's grant.
        """
        context = self.context
        if (kept := self._stored_result()) is not None:
            return kept, None
        self.rows = addressed(context, self.tool, self.keywords)
        self.digest = digest(context, self.tool, self.keywords, self.rows)
        self.parts = parts(context, self.tool, self.keywords, self.rows)
        dialogue = context.channel.dialogue
        found = approval_requests.find_used(self.digest, self.version, dialogue.id, dialogue.round)
        found = found or approval_requests.find_current(self.digest, self.version)
        if found is not None and found.state in {State.CONSUMED, State.APPROVED}:
            context.grant = RequestGrant(found, self)
        elif found is None or found.state == State.PENDING:
            approved = auto_approvals.find_rule(context, self.tool, self.parts, self.version)
            if approved is not None and not context.channel.needs_approval:
                context.grant = AutoApprovalGrant(approved, self._request_fields(), self)
        if context.grant is None and context.channel.waits:
            # Before a decision is possible, so that a credential revoked from now on is noticed.
            self._since = event_store.newest()
        return None, found

    def _request_fields(self, preview: Plain | None = None) -> dict[str, Any]:
        more = {"digest": self.digest, "version": self.version, "parts": self.parts}
        return {**approval_requests.request_fields(self.context, self.tool, preview), **more}

    async def _create_request(self) -> Approval:
        preview = await preview_of(self.context, self.tool, self.keywords)
        propose = partial(approval_requests.create_request, self.context, self._request_fields(preview))
        return (await self.context.runner.checks.sync(propose))[0]

    async def as_task(self, found: Approval | None) -> Result | None:
        """Return the task of a call that may run, if the client wants a task although the tool declares none."""
        context = self.context
        if self.tool.task is None and "task" in context.params and context.channel.wants_task("optional"):
            made = await context.runner.checks.sync(partial(create_pending_task, context, self.tool, found, start=True))
            return context.channel.announce_task(made)
        return None

    async def _answer_decision(self, found: Approval, kind: str) -> Result | None:
        context, channel = self.context, self.context.channel
        if found.state == State.PENDING and not channel.is_task:
            if kind == messages.PENDING:
                await context.runner.checks.sync(
                    partial(approval_requests.record_event, found, approval_requests.Kind.REPEATED)
                )
            if channel.wants_task(self.tool.task or "optional"):
                made = await context.runner.checks.sync(partial(create_pending_task, context, self.tool, found))
                return channel.announce_task(made)
            if channel.waits and not no_waiting.get():
                self._show_page(found)
                found = await self._wait_for_decision(found)
        match found.state:
            case State.APPROVED:
                context.grant = RequestGrant(found, self)
                return None
            case State.DENIED:
                await context.runner.checks.sync(
                    partial(approval_requests.record_event, found, approval_requests.Kind.REJECTED)
                )
                raise messages.denied(found)
            case State.PENDING:
                if not channel.is_task:
                    return messages.pending_result(context, found, kind)
        raise messages.expired(found)

    async def _wait_for_decision(self, found: Approval) -> Approval:
        """Wait for the decision and return the approval request.

        Raises:
            ToolError: the call was approved, but the caller's rights, the policy or the addressed rows have changed.
        """
        context = self.context
        found = await wait(context, found, settings.APPROVAL_WAIT_TIMEOUT)
        if found.state == State.APPROVED and not (
            await context.runner.checks.sync(partial(is_still_there, context, self._since))
            and await context.site_runner.checks.sync(self._means_the_same)
            and await may_use(context, self.tool)
            and version(self.tool, await find_rule(context, self.tool)) == self.version
        ):
            raise messages.expired(found)
        return found

    def _means_the_same(self) -> bool:
        rows = addressed(self.context, self.tool, self.keywords)
        return digest(self.context, self.tool, self.keywords, rows) == self.digest

    def _show_page(self, found: Approval) -> None:
        """Have a client that supports it open the request's status page. Its response is not a decision.

        Raises:
            InputRequired: the client was not asked yet.
        """
        url = messages.page_url_of(self.context, found)
        if url.startswith(("https://", "http://")) and self.context.supports("elicitation.url"):
            message = (
                f"{self.tool.name} requires approval. Approvers decide on this page; others see the request's status."
            )
            self.context.ask(URLElicitation(message, url, key=f"approval-{found.public_id}"))
