"""What a request says about itself in ``_meta``."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_mcp.protocol import meta as envelope
from django_mcp.protocol.errors import InvalidParams
from django_mcp.protocol.meta import ClientInfo, Envelope, meta_of
from tests.protocol.strategies import VALUES

VERSION = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
CLIENT = "io.modelcontextprotocol/clientInfo"


def meta(**changes: Any) -> dict[str, Any]:
    return {VERSION: "2026-07-28", CAPABILITIES: {"elicitation": {}}, **changes}


def test_the_names_are_those_of_the_specification() -> None:
    assert envelope.VERSION == VERSION
    assert envelope.CLIENT_CAPABILITIES == CAPABILITIES
    assert envelope.CLIENT_INFO == CLIENT
    assert envelope.SERVER_INFO == "io.modelcontextprotocol/serverInfo"


def test_what_a_client_writes_is_what_the_server_reads(subtests: pytest.Subtests) -> None:
    for level in [None, "debug"]:
        with subtests.test(level=level):
            written = envelope.fields("2026-07-28", {"name": "a"}, {"roots": {}}, level)
            assert Envelope.read({"_meta": written}) == ("2026-07-28", {"name": "a"}, {"roots": {}}, level)
            assert (envelope.LOG_LEVEL in written) is (level is not None)


def test_an_envelope_holds_version_client_and_capabilities() -> None:
    client = {"name": "inspector", "version": "1.2", "title": "Inspector"}
    read = Envelope.read({"_meta": meta(**{CLIENT: client})})
    assert (read.version, read.capabilities) == ("2026-07-28", {"elicitation": {}})
    assert ClientInfo.read(read.client) == ClientInfo("inspector", "1.2", "Inspector")


def test_who_the_client_is_need_not_be_said() -> None:
    assert ClientInfo.read(Envelope.read({"_meta": meta()}).client) == ClientInfo("", "", "")


def test_a_strange_client_info_reads_as_unknown(subtests: pytest.Subtests) -> None:
    for client in [None, "inspector", 1, [], ["inspector"], {}, {"name": 5, "version": None}]:
        with subtests.test(client=client):
            assert ClientInfo.read(Envelope.read({"_meta": meta(**{CLIENT: client})}).client) == ClientInfo("", "", "")


def test_members_of_client_info_nobody_knows_are_ignored() -> None:
    assert ClientInfo.read({"name": "a", "icons": [], "websiteUrl": "x"}) == ClientInfo("a", "", "")


def test_a_request_without_meta_is_told_what_belongs_there(subtests: pytest.Subtests) -> None:
    for params in [{}, {"_meta": None}, {"_meta": []}, {"_meta": "x"}, {"_meta": 1}, {"_meta": True}]:
        with subtests.test(params=params):
            with pytest.raises(InvalidParams, match="must be an object") as caught:
                Envelope.read(params)
            assert VERSION in caught.value.message
            assert CAPABILITIES in caught.value.message


def test_a_version_that_is_no_string_is_refused_by_name(subtests: pytest.Subtests) -> None:
    for version in [None, 20260728, 1.5, [], {}, True]:
        with subtests.test(version=version), pytest.raises(InvalidParams, match=VERSION):
            Envelope.read({"_meta": meta(**{VERSION: version})})


def test_capabilities_that_are_no_object_are_refused_by_name(subtests: pytest.Subtests) -> None:
    for capabilities in [None, [], "elicitation", 1, True]:
        with subtests.test(capabilities=capabilities), pytest.raises(InvalidParams, match=CAPABILITIES):
            Envelope.read({"_meta": meta(**{CAPABILITIES: capabilities})})


def test_a_missing_member_is_named(subtests: pytest.Subtests) -> None:
    for missing in [VERSION, CAPABILITIES]:
        with subtests.test(missing=missing):
            members = meta()
            del members[missing]
            with pytest.raises(InvalidParams, match=missing):
                Envelope.read({"_meta": members})


@given(st.fixed_dictionaries({}, optional={VERSION: VALUES, CAPABILITIES: VALUES, CLIENT: VALUES}) | VALUES)
def test_any_meta_is_an_envelope_or_invalid_params(value: Any) -> None:
    try:
        read = Envelope.read({"_meta": value})
    except InvalidParams:
        return
    assert isinstance(read.version, str)
    assert isinstance(read.capabilities, dict)
    assert all(isinstance(word, str) for word in ClientInfo.read(read.client))


def test_a_meta_that_is_no_object_reads_as_empty(subtests: pytest.Subtests) -> None:
    for params in [{}, {"_meta": None}, {"_meta": 3}, {"_meta": [1]}]:
        with subtests.test(params=params):
            assert meta_of(params) == {}


def test_a_meta_that_is_an_object_is_given_as_it_is() -> None:
    assert meta_of({"_meta": {"a": 1}}) == {"a": 1}
