"""Bytes that a caller sends."""

import base64
from typing import Annotated, Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from jsonschema import Draft202012Validator
from pydantic import Base64Bytes, BaseModel, Field, PydanticUserError

from django_mcp import HeaderParam, Secret, Upload
from django_mcp.primitives.markers import MAX_BYTES
from django_mcp.primitives.schema import ArgumentError
from django_mcp.primitives.validation_errors import size
from tests.primitives.makers import taking

DATA = bytes(range(256))
PLAIN = base64.b64encode(DATA).decode()
SAFE = base64.urlsafe_b64encode(DATA).decode()


def received(annotation: Any, value: Any) -> Any:
    tool = taking(annotation)
    Draft202012Validator(tool.definition["inputSchema"]).validate({"value": value})
    return tool.arguments.validate({"value": value})["value"]


def problem(annotation: Any, value: Any) -> str:
    with pytest.raises(ArgumentError) as caught:
        taking(annotation).arguments.validate({"value": value})
    return str(caught.value)


def test_bytes_are_sent_in_base64_of_every_kind(subtests: pytest.Subtests) -> None:
    for sent in [
        PLAIN,
        SAFE,
        PLAIN.rstrip("="),
        "\r\n".join([PLAIN[:76], PLAIN[76:152], PLAIN[152:]]),
        f"data:image/png;base64,{PLAIN}",
        f"data:;base64,{SAFE}",
        f"data:text/plain;charset=utf-8;base64,{PLAIN}",
    ]:
        with subtests.test(sent=sent):
            assert received(bytes, sent) == DATA


@pytest.mark.parametrize("marker", [Upload, Secret, HeaderParam])
def test_a_marker_in_the_place_of_a_type_is_refused_with_the_way_to_write_it(marker: Any) -> None:
    made = marker("Region") if marker is HeaderParam else marker()
    words = f"{marker.__name__} is not a type: write (bytes, or )?Annotated"
    for annotation in (marker, made, list[marker], marker | None, Annotated[bytes, marker]):
        with pytest.raises(ImproperlyConfigured, match=words):
            taking(annotation)
    with pytest.raises(PydanticUserError, match=words):
        type("Form", (BaseModel,), {"__annotations__": {"file": marker}})


def test_markers_of_other_kinds_leave_bytes_an_upload() -> None:
    assert received(Annotated[bytes, Secret()], PLAIN) == DATA


def test_no_bytes_are_bytes() -> None:
    assert received(bytes, "") == b""


def test_what_is_no_base64_is_refused(subtests: pytest.Subtests) -> None:
    for sent in [
        "(image)",
        "aGk=aGk=",
        "a",
        "aGk*",
        "ä",
        "data:image/png,abc",
        "data:image/png;base64",
        "a.png",
        "=",
        "aG=k",
    ]:
        with subtests.test(sent=sent):
            assert problem(bytes, sent).startswith("Argument 'value' must be Base64")


def test_what_is_no_string_is_refused(subtests: pytest.Subtests) -> None:
    for sent in [5, None, True, [1, 2], {"data": "aGk="}]:
        with subtests.test(sent=sent):
            assert problem(bytes, sent).startswith("Argument 'value' must be a Base64 string, not ")


def test_the_limit_is_told_and_kept() -> None:
    annotation = Annotated[bytes, Upload(max_bytes=256)]
    assert received(annotation, PLAIN) == DATA
    assert problem(annotation, base64.b64encode(DATA + b"x").decode()).startswith(
        "Argument 'value' must be at most 256 bytes when decoded, not 257 bytes"
    )
    (schema,) = taking(annotation).definition["inputSchema"]["properties"].values()
    assert schema["description"] == "Base64-encoded; at most 256 bytes when decoded."
    assert schema["maxLength"] >= len(f"data:application/octet-stream;base64,{PLAIN}")


def test_without_a_limit_of_its_own_it_is_a_mebibyte() -> None:
    assert received(bytes, base64.b64encode(b"x" * MAX_BYTES).decode()) == b"x" * MAX_BYTES
    words = problem(bytes, base64.b64encode(b"x" * (MAX_BYTES + 1)).decode())
    assert words.startswith("Argument 'value' must be at most 1 MiB when decoded, not 1 MiB")


def test_the_media_type_is_told_and_a_data_url_of_another_is_refused() -> None:
    annotation = Annotated[bytes, Upload(media_type="image/*")]
    (schema,) = taking(annotation).definition["inputSchema"]["properties"].values()
    assert (schema["contentEncoding"], schema["contentMediaType"]) == ("base64", "image/*")
    assert received(annotation, f"data:image/png;base64,{PLAIN}") == DATA
    assert received(annotation, PLAIN) == DATA
    assert problem(annotation, "data:text/plain;base64,aGk=").startswith(
        "Argument 'value' must be of the media type image/*"
    )


def test_bytes_may_stand_in_lists_and_models_and_have_other_limits() -> None:
    class Letter(BaseModel):
        scan: Annotated[bytes, Upload()]

    assert received(list[bytes], [PLAIN, "aGk="]) == [DATA, b"hi"]
    assert received(bytes | None, None) is None
    assert received(dict[str, bytes], {"a": "aGk="}) == {"a": b"hi"}
    assert received(Letter, {"scan": "aGk="}).scan == b"hi"
    assert received(Annotated[bytes, Field(description="A scan.")], "aGk=") == b"hi"
    assert problem(Annotated[bytes, Field(min_length=3)], "aGk=").endswith("at least 3 items, not 2.")


def test_bytes_that_pydantic_decodes_are_left_to_it() -> None:
    assert received(Base64Bytes, "aGk=") == b"hi"


def test_a_default_is_bytes_already() -> None:
    tool = taking(bytes, b"\xff")
    assert tool.arguments.validate({}) == {"value": b"\xff"}


def test_sizes_are_told_in_words(subtests: pytest.Subtests) -> None:
    for length, words in [
        (0, "0 bytes"),
        (1023, "1023 bytes"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        (3 * 1024**2, "3 MiB"),
    ]:
        with subtests.test(length=length, words=words):
            assert size(length) == words
