"""System checks of server cards, the registry's key, instructions and titles."""

from collections.abc import Callable

import pytest

from django_mcp import MCPServer, tool
from django_mcp.listing import checks
from tests.listing.conftest import With

Make = Callable[..., MCPServer]

pytestmark = pytest.mark.usefixtures("with_settings")


def test_a_card_that_is_not_valid_is_an_error(make_server: Make, with_settings: With) -> None:
    make_server("card", server_card=True)
    assert list(checks.check_server_cards()) == []
    make_server("long", server_card=True, description="d" * 101)
    make_server("named", server_card=True, registry_name="named")
    make_server("hidden", server_card=False, registry_name="hidden")
    found = [str(each.msg) for each in checks.check_server_cards()]
    assert len(found) == 2
    assert "has 101 characters; a server card takes 100" in found[0]
    assert "'named', which is not in reverse-DNS form" in found[1]
    with_settings(BASE_URL=None)
    assert {each.id for each in checks.check_server_cards()} == {"django_mcp.E057"}
    assert "DJANGO_MCP['BASE_URL'] is missing" in str(next(iter(checks.check_server_cards())).msg)


def test_what_is_no_public_key_is_not_to_be_published(with_settings: With, subtests: pytest.Subtests) -> None:
    for record, is_right in [
        (None, True),
        ("v=MCPv1; k=ed25519; p=aGVsbG8=", True),
        ("v=MCPv1; k=ecdsap384; p=aGVsbG8", True),
        ("aGVsbG8=", False),
        ("-----BEGIN PRIVATE KEY-----", False),
    ]:
        with subtests.test(record=record):
            with_settings(MCP_REGISTRY_AUTH=record)
            assert (checks.check_registry_key() == []) is is_right


def test_instructions_that_clients_cut_are_warned_of(make_server: Make) -> None:
    make_server("short", instructions="x" * 2048)
    assert checks.check_instructions() == []
    make_server("long", instructions="x" * 2049)
    (found,) = checks.check_instructions()
    assert (found.id, "have 2049 characters" in found.msg) == ("django_mcp.W057", True)


def test_tools_that_look_alike_are_warned_of(make_server: Make) -> None:
    shop = make_server("shop")
    tool(server=shop, name="one", title="Refund")(lambda: "")
    tool(server=make_server("other"), name="two", title="Refund")(lambda: "")
    tool(server=shop, name="untitled")(lambda: "")
    assert checks.check_titles() == []
    tool(server=shop, name="two", title="Refund")(lambda: "")
    (found,) = checks.check_titles()
    assert (found.id, "'Refund': one, two" in found.msg) == ("django_mcp.W058", True)
