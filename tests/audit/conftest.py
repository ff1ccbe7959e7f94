"""An endpoint of which everything is written down."""

from typing import Annotated

import pytest
from django.core.exceptions import PermissionDenied
from django.db import connection
from pydantic import BaseModel, SecretStr

from django_mcp import Cancelled, Context, MCPServer, Secret, ToolError, prompt, resource, tool


class Login(BaseModel):
    name: str
    pass_phrase: SecretStr


@pytest.fixture
def site(server: MCPServer) -> MCPServer:  # noqa: C901 - one tool for each thing that may come of a call
    @tool(server=server)
    def add(a: int, b: int = 1) -> int:
        """Add."""
        return a + b

    @tool(server=server)
    async def add_async(a: int, b: int = 1) -> int:
        """Add."""
        return a + b

    @tool(server=server)
    def fail(why: str) -> str:
        """Fail."""
        raise ToolError(f"It fails because of {why}.")

    @tool(server=server)
    def query(times: int) -> str:
        """Ask the database."""
        with connection.cursor() as cursor:
            for _ in range(times):
                cursor.execute("SELECT 1")
        return "done"

    @tool(server=server)
    def confirm(ctx: Context) -> str:
        """Ask."""
        return "yes" if ctx.confirm("Really?") else "no"

    @tool(server=server)
    def stop() -> str:
        """End as if nobody waited."""
        raise Cancelled

    @tool(server=server)
    def forbid() -> str:
        """Let nobody in."""
        raise PermissionDenied

    @tool(server=server, rate_limit="1/d")
    def seldom() -> str:
        """Once a day."""
        return "now"

    @tool(server=server)
    def sign_in(login: Login, again: list[Login], code: Annotated[str, Secret()], note: str) -> str:
        """Sign in."""
        return "hello"

    @tool(server=server, log_arguments=False)
    def whisper(text: str) -> str:
        """Whisper."""
        return "hm"

    @resource("note://{name}", server=server, mime_type="text/plain")
    def note(name: str) -> str:
        """A note."""
        return f"Of {name}."

    @prompt(server=server)
    def greet(name: str) -> str:
        """Greet."""
        return f"Greet {name}."

    return server
