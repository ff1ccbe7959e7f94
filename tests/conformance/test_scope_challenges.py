"""The site answers the two tokens of the scope challenge scenario as it asks (pull request 481 of the suite, SEP-2350).

The scenario is in no release yet. Its contract is that a token with too few scopes is answered with one challenge that
names all that the operation requires, that a token with all of them gets the result, and that nobody else notices.
"""

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from mcp.client.auth.utils import (
    extract_field_from_www_auth,
    extract_resource_metadata_from_www_auth,
    extract_scope_from_www_auth,
)

from tests.conformance.legs import LEGS, running
from tests.conformance.scopes import BASELINE, EXPANDED, FULL, LOW, PROMPT, RESOURCE, TOOL
from tests.conformance.wire import CLIENT, META, MODERN, request

TEMPLATE = "test://template/123/data"
OPERATIONS = [
    ("tools/call", {"name": "test_simple_text", "arguments": {}}, TOOL, "content"),
    ("resources/read", {"uri": "test://static-text"}, RESOURCE, "contents"),
    ("resources/read", {"uri": TEMPLATE}, EXPANDED, "contents"),
    ("prompts/get", {"name": "test_simple_prompt"}, PROMPT, "messages"),
]


@pytest.fixture(scope="module", params=["uvicorn", "daphne-two-processes"])
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running(LEGS[request.param], tmp_path_factory.mktemp("scopes")) as url:
        yield url


def ask(url: str, method: str, params: dict[str, Any], token: str | None) -> httpx2.Response:
    """Send a request of 2026-07-28 with a token."""
    meta = {META + "protocolVersion": MODERN, META + "clientInfo": CLIENT, META + "clientCapabilities": {}}
    headers = {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": MODERN,
        "mcp-method": method,
        "mcp-name": params.get("name") or params["uri"],
    }
    if token is not None:
        headers["authorization"] = f"Bearer {token}"
    return httpx2.post(url, json=request(method, {**params, "_meta": meta}), headers=headers)


def test_too_few_scopes_are_answered_with_one_challenge_that_names_all(url: str) -> None:
    for method, params, scopes, _ in OPERATIONS:
        answer = ask(url, method, params, LOW)
        assert answer.status_code == 403
        assert extract_field_from_www_auth(answer, "error") == "insufficient_scope"
        assert extract_scope_from_www_auth(answer).split() == [BASELINE, *scopes]
        metadata = extract_resource_metadata_from_www_auth(answer)
        assert metadata == f"{url.removesuffix('/mcp')}/.well-known/oauth-protected-resource/mcp"
        assert httpx2.get(metadata).json()["resource"] == url


def test_all_scopes_and_no_token_get_the_result(url: str) -> None:
    for method, params, _, member in OPERATIONS:
        for token in (FULL, None):
            answer = ask(url, method, params, token)
            assert answer.status_code == 200
            assert answer.json()["result"][member]


def test_the_uri_with_scopes_of_its_own_has_the_contents_of_the_template(url: str) -> None:
    (contents,) = ask(url, "resources/read", {"uri": TEMPLATE}, FULL).json()["result"]["contents"]
    (other,) = ask(url, "resources/read", {"uri": TEMPLATE.replace("123", "124")}, LOW).json()["result"]["contents"]
    assert contents["text"].replace("123", "124") == other["text"]
