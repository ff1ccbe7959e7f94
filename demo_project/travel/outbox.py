"""E-mail backend of the demo: mail is stored in a table and shown on a page."""

from collections.abc import Sequence

from django.core.mail import EmailMessage
from django.core.mail.backends.base import BaseEmailBackend

from demo_project.travel.models import SentEmail


class OutboxBackend(BaseEmailBackend):
    """Stores e-mail instead of sending it."""

    def send_messages(self, email_messages: Sequence[EmailMessage]) -> int:
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
