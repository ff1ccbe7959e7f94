"""What the owner does on the page of an application: done, told, and noted in its history."""

from typing import Any

from django.contrib import messages
from django.contrib.auth import get_user_model
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_mcp.core import database
from django_mcp.core.database import keys_of
from django_mcp.models import Applications, ClientPolicy
from django_mcp.oauth.connected_apps import acts_for_itself, name_of, take_back, take_back_all


class Changing:
    """What one person changes about one application.

    Args:
        model_admin: of the pages.
        request: theirs.
        application: which.
    """

    def __init__(self, model_admin: Any, request: HttpRequest, application: Any) -> None:
        self._admin, self._request, self._application = model_admin, request, application

    def take_back(self, key: str) -> None:
        """Take back what it has of one user.

        Args:
            key: the user's primary key, as a form has it.
        """
        user = _user(key)
        if user is None:
            self._tell(_("There is no such user any more."), messages.WARNING)
            return
        if acts_for_itself(self._application):
            self.take_back_all()
            return
        with database.atomic():
            take_back(user, self._application.pk)
            self._note(_("Access taken back, of %s.") % user.get_username())
        told = {"application": name_of(self._application), "user": user.get_username()}
        self._tell(_("Application %(application)s no longer has access in the name of %(user)s.") % told)

    def take_back_all(self) -> None:
        """Take back what it has of everybody, and of its own."""
        with database.atomic():
            number = take_back_all(self._application.pk)
            words = ngettext("All access taken back, of %d user.", "All access taken back, of %d users.", number)
            self._note(words % number)
        self._tell(_("Application %s no longer has access in anybody’s name.") % name_of(self._application))

    def block(self, *, blocked: bool) -> None:
        """Block it, or no longer. It is saved like on the page of policies: its streams hear of it."""
        client_id = self._application.client_id
        done = _("Blocked.") if blocked else _("No longer blocked.")
        with database.atomic():
            row = ClientPolicy.objects.select_for_update().filter(client_id=client_id).first()
            if blocked is (row is not None and row.blocked):
                self._tell(_("Nothing was changed: that counts already."), messages.INFO)
                return
            row = row or ClientPolicy(client_id=client_id)
            row.blocked = blocked
            row.save()
            self._admin.log_change(self._request, row, done)
            self._note(done)
        name = name_of(self._application)
        self._tell(
            (_("Application %s is blocked from now on.") if blocked else _("Application %s is no longer blocked."))
            % name
        )

    def _note(self, words: str) -> None:
        row = Applications(client_id=self._application.client_id)
        row.pk = row.client_id  # of no table; the history goes by it
        self._admin.log_change(self._request, row, words)

    def _tell(self, words: str, level: int = messages.SUCCESS) -> None:
        self._admin.message_user(self._request, words, level)


def _user(key: str) -> Any:
    model = get_user_model()
    return model._default_manager.filter(pk__in=keys_of(model, [key])).first()  # noqa: SLF001 - Django's documented API
