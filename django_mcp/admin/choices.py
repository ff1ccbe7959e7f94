"""What can be chosen in forms: endpoints, scopes and tools, as they are when the form is made."""

from collections.abc import Iterable
from typing import Any

from django import forms
from django.utils.translation import gettext as _

from django_mcp.auth.api_keys import takes_keys
from django_mcp.auth.protected_resource import path_of
from django_mcp.core.permissions import declared
from django_mcp.core.server import servers

Choices = list[tuple[str, str]]

STYLES = {"all": ["django_mcp/admin.css"]}


def endpoint_choices() -> Choices:
    """Every endpoint, with its path."""
    return [
        (each.name, f"{each.name} ({path_of(each)})" + ("" if takes_keys(each) else _(" – takes no API keys now")))
        for each in servers()
    ]


def scope_choices() -> Choices:
    """Every scope, with its words."""
    return [(name, f"{scope.text} ({name})") for name, scope in declared().items()]


def tool_choices() -> Choices:
    """Every tool of every endpoint, by name."""
    found: dict[str, list[str]] = {}
    for server in servers():
        for name in server.tools:
            found.setdefault(name, []).append(server.name)
    return [(name, f"{name} ({', '.join(where)})") for name, where in sorted(found.items())]


def with_stored(choices: Choices, stored: Iterable[str] | None) -> Choices:
    """*choices*, and what is stored and no longer among them, so that saving does not drop it."""
    known = {name for name, _words in choices}
    return [*choices, *((name, _("%s – does not exist now") % name) for name in stored or () if name not in known)]


def checkboxes(**options: Any) -> forms.MultipleChoiceField:
    """A field of check boxes."""
    return forms.MultipleChoiceField(widget=forms.CheckboxSelectMultiple(attrs={"class": "mcp-choices"}), **options)
