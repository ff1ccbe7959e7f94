"""``mcp_listing``: what directories of connectors would refuse, and the ``server.json`` of the MCP registry."""

import json
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from django_mcp.auth.protected_resource import path_of, url_of
from django_mcp.listing.documents import server_json
from django_mcp.listing.rules import DIRECTORIES, Finding, findings
from django_mcp.management.base import find_server

WIDTH = 100
MAX_SHOWN = 10


class Command(BaseCommand):
    """See ``help``."""

    help = "Shows what directories of connectors would refuse, in their own terms, and writes server.json."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("directory", nargs="?", choices=list(DIRECTORIES), help="a directory (default: all)")
        parser.add_argument("--server", default="default", help="name of the endpoint (default: 'default')")
        parser.add_argument("--json", action="store_true", help="print one JSON document")
        parser.add_argument(
            "--write",
            nargs="?",
            const="server.json",
            metavar="FILE",
            help="write server.json, for the registry only, if nothing would be refused; - is standard output",
        )

    def handle(self, *_: Any, **options: Any) -> None:
        """Print the findings; exit with 1 if something would be refused."""
        if options["write"] is not None and (options["directory"] != "registry" or options["json"]):
            raise CommandError("--write is for the registry, without --json: mcp_listing registry --write.")
        server = find_server(options["server"])
        chosen = [options["directory"]] if options["directory"] else list(DIRECTORIES)
        found = {directory: findings(directory, server) for directory in chosen}
        is_refused = any(finding.rule.refuses for several in found.values() for finding in several)
        if options["json"]:
            directories = {name: [_to_json(name, finding) for finding in several] for name, several in found.items()}
            report = {"server": server.name, "url": url_of(server), "refused": is_refused, "directories": directories}
            self.stdout.write(json.dumps(report, indent=2, ensure_ascii=False))
        elif options["write"] != "-" or is_refused:
            self.stdout.write(f"{url_of(server) or path_of(server)}, endpoint {server.name!r}")
            for directory, several in found.items():
                self.stdout.write("\n" + "\n".join(self._lines(directory, several)))
        if is_refused:
            raise SystemExit(1)
        if options["write"] is not None:
            self._write(options["write"], json.dumps(server_json(server), indent=2, ensure_ascii=False))

    def _lines(self, directory: str, several: list[Finding]) -> Iterator[str]:
        yield self.style.MIGRATE_HEADING(f"{DIRECTORIES[directory]} ({directory})")
        if not any(finding.rule.refuses for finding in several):
            yield "  Nothing would be refused."
        for heading, refuses in (("Would be refused", True), ("Consider", False)):
            if chosen := [finding for finding in several if finding.rule.refuses is refuses]:
                yield f"  {self.style.ERROR(heading) if refuses else heading}:"
                for finding in chosen:
                    yield from _finding_lines(finding, directory)

    def _write(self, file: str, text: str) -> None:
        if file == "-":
            self.stdout.write(text)
            return
        try:
            Path(file).write_text(text + "\n", encoding="utf-8")
        except OSError as error:
            raise CommandError(f"Cannot write {file!r}: {error.strerror}.") from None
        self.stdout.write(f"\nWrote {file}. Publish it with 'mcp-publisher publish'.")


def _finding_lines(finding: Finding, directory: str) -> Iterator[str]:
    rule = finding.rule
    yield from _wrapped(f"{rule.what} [{rule.id}]", "    ", "    ")
    for place in list(finding.where)[:MAX_SHOWN]:
        yield from _wrapped(place, "      * ", "        ")
    if (more := len(finding.where) - MAX_SHOWN) > 0:
        yield f"      * and {more} more"
    yield from _wrapped(rule.correction, "      -> ", "         ")
    yield f"         Source: {rule.source[directory]}"


def _wrapped(text: str, first: str, others: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=others, break_on_hyphens=False)


def _to_json(directory: str, finding: Finding) -> dict[str, Any]:
    rule = finding.rule
    return {
        "rule": rule.id,
        "severity": "refused" if rule.refuses else "consider",
        "what": rule.what,
        "where": list(finding.where),
        "correction": rule.correction,
        "source": rule.source[directory],
    }
