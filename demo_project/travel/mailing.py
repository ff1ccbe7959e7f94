"""E-mail to travellers. It cannot be recalled, so the agency's staff approve it first."""

from typing import Annotated

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.mail import EmailMessage
from django.core.validators import validate_email
from pydantic import BaseModel, Field

from demo_project.travel.arguments import PLAIN
from django_mcp import Context, ToolError, ToolResult, tool


class Sent(BaseModel):
    """A sent e-mail."""

    to: str
    subject: str


def message(ctx: Context, to: str, subject: str, body: str) -> EmailMessage:
    """Return the e-mail, unsent.

    Raises:
        ToolError: the address is invalid.
    """
    try:
        validate_email(to)
    except ValidationError:
        raise ToolError(f"{to[:100]!r} is not an e-mail address.") from None
    signed = f"{body.rstrip()}\n\n-- \nWritten for {ctx.user.get_username()} at the travel agency.\n"
    return EmailMessage(subject, signed, settings.DEFAULT_FROM_EMAIL, [to])


def as_it_would_be_sent(ctx: Context, to: str, subject: str, body: str) -> str:
    """Return the preview for the approver."""
    mail = message(ctx, to, subject, body)
    return f"From: {mail.from_email}\nTo: {to}\nSubject: {subject}\n\n{mail.body}"


@tool(
    title="Send an e-mail",
    read_only=False,
    destructive=False,
    idempotent=False,
    open_world=True,
    scopes=["travel:write"],
    policy="ask",
    preview=as_it_would_be_sent,
)
def send_email(
    ctx: Context,
    to: Annotated[str, Field(max_length=254)],
    subject: Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\r\n]+$"), PLAIN],
    body: Annotated[str, Field(min_length=1, max_length=10_000), PLAIN],
) -> ToolResult[Sent]:
    """Send an e-mail in the agency's name, such as an itinerary to a traveller. Requires the agency's approval.

    Args:
        to: One e-mail address.
        subject: Subject, one line.
        body: Plain text. The agency's signature is added.
    """
    message(ctx, to, subject, body).send()
    return ToolResult(Sent(to=to, subject=subject), text=f"Sent to {to}: {subject}")
