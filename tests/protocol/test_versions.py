"""Which versions are spoken, and how one is agreed on."""

from typing import Any

import pytest
from hypothesis import given
from mcp_types import version as reference

from django_mcp.protocol import versions
from django_mcp.protocol.versions import negotiate
from tests.protocol.strategies import VALUES

WITH_HANDSHAKE = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]


def test_a_version_with_a_handshake_is_agreed_to(subtests: pytest.Subtests) -> None:
    for version in WITH_HANDSHAKE:
        with subtests.test(version=version):
            assert negotiate(version) == version


def test_any_other_version_is_answered_with_the_newest_that_has_a_handshake(subtests: pytest.Subtests) -> None:
    for version in ["2026-07-28", "1999-01-01", "2099-01-01", "", "latest", "2025-11-25 ", "2025-6-18"]:
        with subtests.test(version=version):
            assert negotiate(version) == "2025-11-25"


@given(VALUES)
def test_anything_at_all_is_answered_with_a_version_that_has_a_handshake(requested: Any) -> None:
    assert negotiate(requested) in WITH_HANDSHAKE


def test_the_versions_are_those_of_the_official_types_newest_first() -> None:
    assert ("2026-07-28", *WITH_HANDSHAKE) == versions.SUPPORTED
    assert set(versions.LEGACY) == set(reference.HANDSHAKE_PROTOCOL_VERSIONS)
    assert set(versions.MODERN) == set(reference.MODERN_PROTOCOL_VERSIONS)


def test_batches_belong_to_one_version_and_it_is_the_one_assumed_without_a_header() -> None:
    assert {"2025-03-26"} == versions.BATCHING
    assert versions.ASSUMED == "2025-03-26"
