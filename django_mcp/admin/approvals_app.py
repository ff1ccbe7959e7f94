"""The approvals app: pending approval requests in the conversation, for those who may decide (``APPROVALS_APP``).

It shows the cards of the admin. A decision needs a token that is in the view's HTML only, which models do not read.
Clients that show the view do read it, so the user of each has to agree to ``APPROVALS_SCOPE``.
"""

from typing import Annotated, Any, Literal

from django.contrib import messages
from django.core import signing
from django.core.exceptions import PermissionDenied
from pydantic import Field

from django_mcp.admin.approval_cards import Card, make_cards, record_views
from django_mcp.admin.approval_decisions import MAX_REASON_LENGTH, decide_card
from django_mcp.admin.approval_states import pending_q
from django_mcp.admin.display import line
from django_mcp.approvals.approvers import may_approve
from django_mcp.conf import APPROVALS_SCOPE
from django_mcp.core.apps import App
from django_mcp.core.context import Context
from django_mcp.core.decorators import tool
from django_mcp.core.server import MCPServer, every_server
from django_mcp.models import Approval
from django_mcp.primitives.base import ToolError
from django_mcp.primitives.markers import Secret
from django_mcp.primitives.output import ToolResult

MAX_CARDS = 20
TOKEN_TTL = 15 * 60
"""Seconds after the view was rendered within which its buttons work."""
SALT = "django_mcp.admin.approvals_app"
EXPIRED = "Not decided: the list of approvals is out of date. Refresh it, review the call, then decide."


def may_decide_here(context: Any) -> bool:
    """Return True for staff who may approve at this endpoint, signed in through a client that shows apps.

    The scope is checked as that of any tool. Callers without scopes, such as sessions, have agreed to nothing, and API
    keys are held by programs.
    """
    user, principal = context.user, context.principal
    has_agreed = principal.kind == "oauth" and principal.scopes is not None
    is_staff = getattr(user, "is_active", False) and getattr(user, "is_staff", False)
    return context.shows_apps and has_agreed and is_staff and may_approve(user, context.server.name)


def token_of(context: Any, card: Card) -> str:
    # It decides once at most, as a decided request is not pending any more.
    return signing.dumps(_bound(context, card.row, card.seen), salt=SALT)


def _bound(context: Any, row: Approval, seen: str) -> list[str]:
    principal = context.principal
    caller = [principal.kind, principal.id, principal.client_id or "", str(context.user.pk)]
    return [row.public_id, seen, context.server.name, *caller]


class ApprovalsApp(App):
    """The view. Its cards are not in the result, which models read."""

    def view(self, context: Any, result: Any, **more: Any) -> str:
        found = _pending(context)
        rows = found.order_by("-pk").select_related("user", "task")[:MAX_CARDS]
        shown = make_cards(rows, context.user, in_admin=False)
        record_views(shown, context.user)
        cards = [(card, token_of(context, card) if card.may_decide else "") for card in shown]
        count = len(cards) if len(cards) < MAX_CARDS else found.count()
        return super().view(context, result, cards=cards, count=count, longest_reason=MAX_REASON_LENGTH, **more)


def _pending(context: Any) -> Any:
    return Approval.objects.filter(pending_q(), server=context.server.name)


APP = ApprovalsApp("ui://django_mcp/approvals", "django_mcp/approvals/app.html", title="Pending approvals")


def add_to(server: MCPServer) -> None:
    """Register the app's tools.

    Raises:
        ImproperlyConfigured: the endpoint has a tool with one of their names.
    """

    @tool(
        server=server,
        app=APP,
        read_only=True,
        policy="allow",
        open_world=False,
        scopes=[APPROVALS_SCOPE],
        visible=may_decide_here,
    )
    def pending_approvals(ctx: Context) -> ToolResult[dict[str, int]]:
        """Show the user the calls that wait for their approval. Only the user can decide, with the buttons shown."""
        count = _pending(ctx).count()
        text = f"Calls pending approval: {count}. The user sees them and decides there; you cannot."
        return ToolResult({"pending": count}, text=text)

    @tool(
        server=server,
        app=APP,
        visibility=["app"],
        policy="allow",
        destructive=False,
        open_world=False,
        scopes=[APPROVALS_SCOPE],
        visible=may_decide_here,
    )
    def decide_approval(
        ctx: Context,
        approval: str,
        decision: Literal["approve", "deny"],
        token: Annotated[str, Secret()],
        reason: Annotated[str, Field(max_length=MAX_REASON_LENGTH)] = "",
        unseen: bool = False,
    ) -> str:
        """Decide a pending call with the token of its form.

        Args:
            approval: Id of the approval request.
            decision: The decision.
            token: Token of the form.
            reason: Sent to the requester if the call is denied.
            unseen: Approve although parts of the call are hidden.
        """
        row = Approval.objects.filter(public_id=approval, server=ctx.server.name).first()
        if row is None:  # the words of a wrong token
            raise ToolError(EXPIRED)
        seen = _seen(ctx, row, token)
        given = {"decision": decision, "seen": seen, "reason": reason, "unseen": unseen}
        try:
            level, words = decide_card(row, ctx.user, given, via=f"via {line(ctx.client.name) or 'an MCP client'}")
        except PermissionDenied:
            raise ToolError("Not decided: you may not decide calls at this endpoint.") from None
        if level == messages.ERROR:
            raise ToolError(words)
        return words


def _seen(context: Context, row: Approval, token: str) -> str:
    """Return the digest of the card that a token was made for.

    Raises:
        ToolError: the token is not one of this caller for this request, or has expired.
    """
    try:
        bound = signing.loads(token, salt=SALT, max_age=TOKEN_TTL)
        seen = str(bound[1])
    except (signing.BadSignature, IndexError, TypeError):
        raise ToolError(EXPIRED) from None
    if bound != _bound(context, row, seen):
        raise ToolError(EXPIRED)
    return seen


def start() -> None:
    """Add the app to all endpoints but connectors, whose clients call only ``search`` and ``fetch``."""
    for server in every_server():
        taken = server.tools.get("pending_approvals")
        has_it = taken is not None and taken.app is APP  # from its source
        if server.connector is None and not has_it:
            add_to(server)
