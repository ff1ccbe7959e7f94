"""Codes and statuses of errors, as the specifications number them."""

import pytest
from mcp_types.jsonrpc import ErrorData

from django_mcp.protocol import errors


def test_an_error_has_its_number_and_status(subtests: pytest.Subtests) -> None:
    for error, code, status in [
        (errors.ParseError("x"), -32700, 400),
        (errors.InvalidRequest("x"), -32600, 400),
        (errors.MethodNotFound("x"), -32601, 404),
        (errors.InvalidParams("x"), -32602, 400),
        (errors.ResourceNotFound("x:y"), -32602, 400),
        (errors.InternalError("x"), -32603, 200),
        (errors.HeaderMismatch("x"), -32020, 400),
        (errors.MissingClientCapability("x", {"sampling": {}}), -32021, 400),
        (errors.UnsupportedProtocolVersion("1999-01-01", ["2026-07-28"]), -32022, 400),
    ]:
        with subtests.test(error=error, code=code, status=status):
            wire = error.to_wire()
            assert ErrorData.model_validate(wire).code == code
            assert error.http_status == status
            assert wire["message"]


def test_an_error_without_data_leaves_the_member_out() -> None:
    assert errors.InvalidParams("x").to_wire() == {"code": -32602, "message": "x"}


def test_data_that_is_empty_is_still_data(subtests: pytest.Subtests) -> None:
    for data in [0, "", False, [], {}]:
        with subtests.test(data=data):
            assert errors.InvalidParams("x", data).to_wire()["data"] == data


def test_a_resource_that_is_not_there_is_named() -> None:
    assert errors.ResourceNotFound("x:y").to_wire()["data"] == {"uri": "x:y"}


def test_a_missing_capability_is_named() -> None:
    wire = errors.MissingClientCapability("x", {"sampling": {}}).to_wire()
    assert wire["data"] == {"requiredCapabilities": {"sampling": {}}}


def test_an_unsupported_version_comes_with_those_that_are_supported() -> None:
    wire = errors.UnsupportedProtocolVersion("1999-01-01", ["2026-07-28", "2025-11-25"]).to_wire()
    assert wire["data"] == {"supported": ["2026-07-28", "2025-11-25"], "requested": "1999-01-01"}
    assert "2026-07-28, 2025-11-25" in wire["message"]
