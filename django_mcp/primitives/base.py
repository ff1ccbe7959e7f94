"""What tools, resources, templates and prompts have in common."""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from django_mcp.primitives.functions import Function, read_function
from django_mcp.protocol.content import Icon

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class Primitive:
    """A function under a name, with the words clients show for it.

    Attributes:
        key: what it is looked up by: a name, or a URI.
        definition: its entry in a list, as a JSON object.
        permission: a Django permission such as ``"library.change_book"`` the caller must have, or None.
        position: its place in lists; set at registration.
        speaks: it can say or ask something while it runs, or be stopped where it waits.
    """

    kind = "primitive"

    def __init__(
        self,
        call: Callable[..., Any],
        *,
        context_type: type,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        icons: Sequence[Icon] = (),
        permission: str | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> None:
        self.function: Function = read_function(call, context_type)
        self.speaks = self.function.is_async or self.function.context is not None
        self.name = name or self.function.name
        self.key = self.name
        self.description = inspect.cleandoc(description) if description else self.function.description
        if permission is not None and permission.count(".") != 1:
            msg = f"{self.label}: permission {permission!r} must look like 'app_label.codename'."
            raise ImproperlyConfigured(msg)
        self.permission = permission
        self.position = -1
        self.definition: dict[str, Any] = {"name": self.name}
        if title is not None:
            self.definition["title"] = title
        if self.description:
            self.definition["description"] = self.description
        if icons:
            self.definition["icons"] = [icon.to_wire() for icon in icons]
        if meta is not None:
            self.definition["_meta"] = dict(meta)

    @property
    def label(self) -> str:
        """For messages to the site's owner: which one, and where its code is."""
        module = getattr(self.function.call, "__module__", "?")
        return f"{self.kind} {self.name!r} ({module}.{self.function.name})"

    def require_plain_name(self) -> None:
        """Refuse a name that real clients refuse.

        The specification allows more, but one bad name hides *all* tools of a server from some clients.

        Raises:
            ImproperlyConfigured: it is not 1 to 64 of ``a-z A-Z 0-9 _ -``.
        """
        if not NAME.fullmatch(self.name):
            msg = f"{self.label}: a name is 1 to 64 letters, digits, '_' or '-'."
            raise ImproperlyConfigured(msg)

    def keywords(self, context: Any, arguments: dict[str, Any]) -> dict[str, Any]:
        """What to call the function with. *arguments* have been validated."""
        name = self.function.context
        return arguments if name is None else {**arguments, name: context}
