"""What a client has to be told of an endpoint."""

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class Target(NamedTuple):
    """An endpoint as one client is to reach it.

    Attributes:
        name: what the client calls it.
        url: its address; empty where the client starts the site itself.
        command: what starts the site, for clients on the same machine.
        auth: ``"oauth"``, ``"key"`` or ``"none"``.
        key: the API key, where it was given.
        variable: name of the environment variable that holds it where it was not.
    """

    name: str
    url: str = ""
    command: Sequence[str] = ()
    auth: str = "none"
    key: str = ""
    variable: str = ""

    @property
    def is_local(self) -> bool:
        """Whether the client starts the site."""
        return bool(self.command)

    def bearer(self, placeholder: str) -> str:
        """The value of the ``Authorization`` header.

        Args:
            placeholder: how the client writes the value of a variable, with ``{}`` for its name.
        """
        return f"Bearer {self.key or placeholder.format(self.variable)}"

    def headers(self, placeholder: str) -> dict[str, Any]:
        """``{"headers": ...}`` where a key is sent, else nothing."""
        return {"headers": {"Authorization": self.bearer(placeholder)}} if self.auth == "key" else {}

    @property
    def stdio(self) -> dict[str, Any]:
        """``command`` and ``args``, as most clients have them."""
        return {"command": self.command[0], "args": list(self.command[1:])}

    @property
    def export(self) -> str:
        """What to do about the variable; empty where there is nothing."""
        if self.auth != "key" or self.key:
            return ""
        return f"Put the key into the environment variable {self.variable} of the program, before it starts."


class Setting(NamedTuple):
    """One thing to do.

    Attributes:
        where: a file, or what to do with the text.
        text: to be pasted; empty for what is only to be done.
        kind: ``"json"``, ``"toml"``, ``"shell"`` or ``"steps"``.
    """

    where: str
    text: str
    kind: str


class Unsupported(Exception):
    """The client cannot be told that; the text says what it can."""


def as_json(value: Mapping[str, Any]) -> str:
    """JSON as people write it."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def shell(*parts: str) -> str:
    """A command line."""
    return shlex.join(parts)
