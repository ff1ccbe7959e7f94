"""How mail is sent, in the words of the Django at hand."""

from typing import Any

import django


def send_mail_by(settings: Any, backend: str) -> None:
    """Has the site send mail by a backend; Django 6.1 deprecates the setting of before."""
    if django.VERSION >= (6, 1):
        settings.MAILERS = {"default": {"BACKEND": backend}}
    else:
        settings.EMAIL_BACKEND = backend
