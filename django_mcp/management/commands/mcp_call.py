"""``manage.py mcp_call``: call a tool from the terminal, as a client does."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from django_mcp.core.permissions import Right, right
from django_mcp.core.principal import Principal
from django_mcp.core.server import MCPServer
from django_mcp.management.callers import bring_up_to_date, caller_of, find_server, looking
from django_mcp.management.calling.arguments import read_arguments
from django_mcp.management.calling.asking import Person, read_answers
from django_mcp.management.calling.conversation import Conversation, Refused, with_tasks
from django_mcp.management.calling.link import Link
from django_mcp.management.calling.showing import Aside, content_lines
from django_mcp.management.parsing import intermix
from django_mcp.primitives.tool import Tool
from django_mcp.protocol import versions
from django_mcp.protocol.meta import APPROVAL


class Command(BaseCommand):
    """See ``help``."""

    help = (
        "Calls a tool as a client does: with the rights of a user, policies, approvals and the log of calls. "
        "Exits with 1 where the tool fails."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Which tool, with what, and in whose name."""
        intermix(parser)
        parser.add_argument("tool", metavar="TOOL", help="name of the tool; 'manage.py mcp_inspect' lists them")
        parser.add_argument(
            "arguments", nargs="*", metavar="name=text", help="an argument; name:=JSON for other values"
        )
        parser.add_argument("--as", dest="user", metavar="USERNAME", help="user in whose name it is called")
        parser.add_argument("--server", default="default", help="name of the endpoint; 'default' if left out")
        parser.add_argument("--input", metavar="FILE", help="JSON object with arguments; '-' for standard input")
        parser.add_argument(
            "--answer", action="append", default=[], metavar="name=text", help="answers a question of the tool"
        )
        parser.add_argument("--yes", action="store_true", help="confirm what is asked, and take defaults")
        parser.add_argument("--json", action="store_true", help="print the whole result")
        parser.add_argument("--save", metavar="DIR", type=Path, help="save images, sound and files there")
        parser.add_argument(
            "--era",
            metavar="VERSION",
            default=versions.SUPPORTED[0],
            choices=versions.SUPPORTED,
            help="protocol version to speak: %(choices)s; the newest if left out",
        )

    def handle(self, *_: Any, **options: Any) -> None:
        """Call it.

        Raises:
            CommandError: the call could not be made, or was answered with an error.
            SystemExit: the tool failed.
        """
        server = find_server(options["server"])
        principal = caller_of(server, options["user"], "--as")
        tool = self._visible(server, principal, options["tool"])
        schema = {} if tool is None else tool.definition.get("inputSchema", {})
        arguments = read_arguments(options["arguments"], options["input"], schema, options["tool"])
        is_there = options["input"] != "-" and sys.stdin.isatty()
        aside = Aside(self._say, is_terminal=self.stderr.isatty())
        person = Person(read_answers(options["answer"]), aside.write, yes=options["yes"], is_there=is_there)
        result = asyncio.run(self._call(server, principal, tool, arguments, person, aside, options))
        aside.clear()
        self._show(result, options)

    def _say(self, text: str) -> None:
        """On the side, as it is: no error, and no line of its own."""
        self.stderr.write(text, str, ending="")
        self.stderr.flush()

    @staticmethod
    def _visible(server: MCPServer, principal: Principal, name: str) -> Tool | None:
        """The tool where it exists for the caller. Whether it does is said by the endpoint, when it is called."""
        bring_up_to_date(server)
        tool = server.tools.get(name)
        return None if tool is None or right(looking(server, principal), tool) is not Right.USE else tool

    @staticmethod
    async def _call(
        server: MCPServer,
        principal: Principal,
        tool: Tool | None,
        arguments: dict[str, Any],
        person: Person,
        aside: Aside,
        options: dict[str, Any],
    ) -> dict[str, Any]:
        capabilities: dict[str, Any] = {"elicitation": {"form": {}, **({"url": {}} if person.can_open_pages else {})}}
        if tool is not None and tool.task == "required":
            capabilities = with_tasks(capabilities)
        level = "debug" if options["verbosity"] > 1 else "info"
        async with Link(server, principal) as link:
            conversation = Conversation(link, options["era"], capabilities, level, aside.listen, person.answer)
            try:
                await conversation.open()
                return await conversation.call(options["tool"], arguments)
            except Refused as error:
                aside.clear()
                hint = "" if tool is not None else f" {_why(options)}"
                raise CommandError(f"{error}{hint}") from None

    def _show(self, result: dict[str, Any], options: dict[str, Any]) -> None:
        failed = bool(result.get("isError"))
        approval = result.get("_meta", {}).get(APPROVAL)
        if options["json"]:
            self.stdout.write(json.dumps(result, indent=2, ensure_ascii=False))
        else:
            for line in content_lines(result, options["save"]):
                self.stdout.write(self.style.ERROR(line) if failed else line)
        if approval is not None and approval.get("kind") in {"approval_required", "pending"}:
            page = approval.get("url") or "the admin, under Approvals"
            self.stderr.write(
                f"Nothing was run yet. Somebody else with the right to approve decides here: {page}\n"
                "Then run the same command again."
            )
        if failed:
            sys.exit(1)


def _why(options: dict[str, Any]) -> str:
    seen_by = f" --as {options['user']}" if options["user"] else ""
    asking = f"manage.py mcp_inspect --server {options['server']}{seen_by}"
    return f"'{asking}' says what there is, and why something is hidden."
