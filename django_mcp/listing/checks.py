"""System checks of what public documents say, and of what every client shows or cuts."""

from collections.abc import Iterator

from django.core.checks import CheckMessage, Error, Warning  # noqa: A004
from django.utils.translation import gettext as _

from django_mcp.conf import settings
from django_mcp.core.server import servers
from django_mcp.listing.documents import AUTH_RECORD, MAX_DESCRIPTION, NAME, listed_servers, registry_name
from django_mcp.listing.rules import MAX_INSTRUCTIONS, repeated_titles


def check_server_cards() -> Iterator[CheckMessage]:
    """Report endpoints whose server card is not valid."""
    for server in listed_servers():
        if not settings.BASE_URL:
            yield Error(
                _("%(server)r publishes a server card, but DJANGO_MCP['BASE_URL'] is missing.") % {"server": server},
                hint=_("Write the site's public address: 'BASE_URL': 'https://travel.example.com'."),
                obj=server,
                id="django_mcp.E057",
            )
            continue
        length = len(server.implementation.get("description", ""))
        if length > MAX_DESCRIPTION:
            yield Error(
                _("The description of %(server)r has %(length)s characters; a server card takes %(most)s.")
                % {"server": server, "length": length, "most": MAX_DESCRIPTION},
                hint=_("Shorten DJANGO_MCP['DESCRIPTION'] or description= of the MCPServer."),
                obj=server,
                id="django_mcp.E057",
            )
        if not NAME.fullmatch(name := registry_name(server)):
            yield Error(
                _("%(server)r has the registry name %(name)r, which is not in reverse-DNS form.")
                % {"server": server, "name": name},
                hint=_("Write DJANGO_MCP['REGISTRY_NAME'] or registry_name= as 'com.example.travel/booking'."),
                obj=server,
                id="django_mcp.E057",
            )


def check_registry_key() -> list[CheckMessage]:
    """Report a value of ``MCP_REGISTRY_AUTH`` that is not a public key record: it is published."""
    record = settings.MCP_REGISTRY_AUTH
    if record is None or AUTH_RECORD.fullmatch(record):
        return []
    return [
        Error(
            _("DJANGO_MCP['MCP_REGISTRY_AUTH'] is not a record with a public key, and the site publishes it."),
            hint=_("Write 'v=MCPv1; k=ed25519; p=…' with the public key, never the private one."),
            id="django_mcp.E058",
        )
    ]


def check_instructions() -> list[CheckMessage]:
    """Report instructions that clients cut."""
    return [
        Warning(
            _("The instructions of %(server)r have %(length)s characters; some clients keep the first %(most)s.")
            % {"server": server, "length": length, "most": MAX_INSTRUCTIONS},
            hint=_("Shorten them, and say the most important first."),
            obj=server,
            id="django_mcp.W057",
        )
        for server in servers()
        if (length := len(str(server.instructions or ""))) > MAX_INSTRUCTIONS
    ]


def check_titles() -> list[CheckMessage]:
    """Report tools of one endpoint with the same title, which look alike in clients."""
    return [
        Warning(
            _("Tools of %(server)r have the same title %(title)r: %(names)s.")
            % {"server": server, "title": title, "names": ", ".join(names)},
            hint=_("Clients show titles: give each tool its own. Those of models are set by name and title."),
            obj=server,
            id="django_mcp.W058",
        )
        for server in servers()
        for title, names in repeated_titles(server).items()
    ]


ALWAYS = (check_server_cards, check_registry_key, check_instructions, check_titles)
