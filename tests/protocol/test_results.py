"""What a method gives back."""

from django_mcp.protocol.jsonrpc import Result


def test_a_result_is_private_and_not_to_be_kept_unless_said_otherwise() -> None:
    result = Result({"a": 1})
    assert (result.fields, result.ttl_ms, result.public, result.encoded) == ({"a": 1}, None, False, None)
