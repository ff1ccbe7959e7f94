"""``manage.py startmcp``: a first ``mcp.py`` for an app."""

from pathlib import Path
from typing import Any

from django.apps import AppConfig, apps
from django.core.management.base import BaseCommand, CommandError, CommandParser

from django_mcp.auth.base import Public, authenticators
from django_mcp.core.server import server
from django_mcp.management.starting.source import source_of, tool_name


class Command(BaseCommand):
    """See ``help``."""

    help = "Writes a first mcp.py for an app, fitted to its models: a resource for each, and a tool."

    def add_arguments(self, parser: CommandParser) -> None:
        """For which app."""
        parser.add_argument("app", metavar="APP", help="label of an installed app, as for makemigrations")

    def handle(self, *_: Any, **options: Any) -> None:
        """Write it, and say what to do next.

        Raises:
            CommandError: there is no such app, or an ``mcp.py`` already.
        """
        app = self._app(options["app"])
        path = Path(app.path) / "mcp.py"
        if {"site-packages", "dist-packages"} & set(path.parts):
            raise CommandError(
                f"The app {app.label!r} is not yours but installed ({app.path}). Register its models in an mcp.py of "
                "one of your own apps."
            )
        if (Path(app.path) / "mcp").is_dir():
            raise CommandError(f"There is a package {path.with_suffix('')} already, which is read as mcp.py would be.")
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(source_of(app))
        except FileExistsError:
            raise CommandError(f"There is {path} already; nothing was written.") from None
        except OSError as error:
            raise CommandError(f"{path} cannot be written: {error.strerror}.") from None
        self.stdout.write(self.style.SUCCESS(f"Wrote {path}."))
        self.stdout.write(
            "\nNext:\n"
            "  1. Read it: what it shows is what clients see. Take out what they should not.\n"
            "  2. manage.py check\n"
            f"  3. manage.py mcp_inspect --as USERNAME     what a user sees, and why not\n"
            f"  4. manage.py mcp_call {tool_name(app)} --as USERNAME\n"
            f"  5. manage.py mcp_config CLIENT             how Claude Code, VS Code and others find /{server.path}"
        )
        if all(isinstance(each, Public) for each in authenticators(server)):
            self.stdout.write(
                f"\n/{server.path} knows nobody by name yet, so what needs a permission exists for nobody there. Let "
                "users sign in (docs/authorization.md),\nor open single models with view_permission = None."
            )

    @staticmethod
    def _app(label: str) -> AppConfig:
        found = {each.label: each for each in apps.get_app_configs()} | {
            each.name: each for each in apps.get_app_configs()
        }
        if label not in found:
            own = sorted(each.label for each in apps.get_app_configs() if not each.name.startswith("django."))
            raise CommandError(f"There is no app {label!r} in INSTALLED_APPS; APP is one of {', '.join(own)}.")
        return found[label]
