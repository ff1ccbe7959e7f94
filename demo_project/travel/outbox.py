"""Where the demo's mail goes: into a table, and from there onto a page. Nobody's post box is needed."""

from collections.abc import Sequence

from django.core.mail import EmailMessage
from django.core.mail.backends.base import BaseEmailBackend

from demo_project.travel.models import SentEmail


class OutboxBackend(BaseEmailBackend):
    """Keeps what Django's mail sends."""

    def send_messages(self, email_messages: Sequence[EmailMessage]) -> int:
        """Keep them; how many."""
        rows = [
            SentEmail(
                sender=each.from_email[:200],
                recipients=", ".join(each.recipients())[:1000],
                subject=each.subject[:200],
                body=each.body,
            )
            for each in email_messages
        ]
        return len(SentEmail.objects.bulk_create(rows))
