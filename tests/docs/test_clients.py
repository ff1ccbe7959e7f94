"""The pages in ``docs/clients/`` show the settings that ``mcp_config`` prints."""

import pytest

from django_mcp.client.configuration import CLIENTS, Target
from tests.docs.test_blocks import ROOT

PAGES = {
    "claude-code": "oauth key",
    "claude-desktop": "key",
    "vscode": "oauth key",
    "cursor": "oauth key",
    "gemini-cli": "oauth key",
    "codex": "oauth key",
    "inspector": "oauth key",
}
REPEATED = ("claude-code", "key", "json")
"""The page shows this entry in the command only."""


@pytest.mark.parametrize("client", PAGES)
def test_the_page_shows_what_the_command_prints(client: str) -> None:
    name = {"claude-desktop": "claude"}.get(client, client)
    page = (ROOT / "docs" / "clients" / f"{name}.md").read_text()
    for auth in PAGES[client].split():
        target = Target("library", "https://library.example.com/mcp", (), auth, "", "LIBRARY_MCP_KEY")
        for setting in CLIENTS[client][1](target):
            if setting.text and (client, auth, setting.kind) != REPEATED:
                assert f"```\n{setting.text}\n```" in page
