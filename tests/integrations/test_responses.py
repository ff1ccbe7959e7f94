"""Responses as results of tools."""

from itertools import product
from typing import Any

import pytest
from django.http import FileResponse, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase

from django_mcp import AudioContent, EmbeddedResource, ImageContent, ToolError, ToolResult
from django_mcp.integrations.requests import Call, site_request
from django_mcp.integrations.responses import ServerError
from django_mcp.integrations.results import tool_result
from tests.integrations.test_requests import context


def told(response: HttpResponseBase, method: str = "GET") -> ToolResult[Any]:
    return tool_result(response, site_request(context(), Call(method, "/a/")))


def refusal(response: HttpResponseBase) -> str:
    with pytest.raises(ToolError) as raised:
        told(response)
    return str(raised.value)


def test_json_is_structured_content(subtests: pytest.Subtests) -> None:
    for value in ({"a": 1}, [1, 2], "x", 0, False):
        with subtests.test(value=value):
            assert told(JsonResponse(value, safe=False)).structured == value


def test_null_is_a_text() -> None:
    assert told(JsonResponse(None, safe=False)).text == "null"


def test_so_is_json_of_other_names(subtests: pytest.Subtests) -> None:
    for kind in ["application/hal+json", "application/geo+json; charset=utf-8"]:
        with subtests.test(kind=kind):
            assert told(HttpResponse(b'{"a": 1}', content_type=kind)).structured == {"a": 1}


def test_what_only_says_that_it_is_json_is_text(subtests: pytest.Subtests) -> None:
    for body in [b"{oops", b'{"a": NaN}', b"callback({})"]:
        with subtests.test(body=body):
            result = told(HttpResponse(body, content_type="application/json"))
            assert (result.structured, result.text) == (None, body.decode())


def test_text_is_text(subtests: pytest.Subtests) -> None:
    for kind, body, text in [
        ("text/csv; charset=latin-1", b"a,\xfc", "a,ü"),
        ("text/plain; charset=nonsense", "ü".encode(), "ü"),
        ("application/xml", b"<a/>", "<a/>"),
        ("application/atom+xml", b"<a/>", "<a/>"),
        ("application/javascript", b"callback({})", "callback({})"),
        ("application/x-ndjson", b"1\n2\n", "1\n2\n"),
        ("application/xhtml+xml", b"<p>a</p>", "a"),
        ("text/html", b"<nav>x</nav><p>a", "a"),
        ("text/html", b"", "Done."),
    ]:
        with subtests.test(kind=kind, body=body, text=text):
            assert told(HttpResponse(body, content_type=kind)).text == text


def test_other_files_are_content_of_their_kind(subtests: pytest.Subtests) -> None:
    for kind, block in [
        ("image/png", ImageContent),
        ("image/svg+xml", ImageContent),
        ("audio/ogg", AudioContent),
        ("application/pdf", EmbeddedResource),
        ("video/mp4", EmbeddedResource),
        ("", EmbeddedResource),
    ]:
        with subtests.test(kind=kind, block=block):
            response = HttpResponse(b"\x00\x01", content_type="text/plain")
            response["Content-Type"] = kind
            (content,) = told(response).content
            assert isinstance(content, block)


def test_the_name_of_a_file_cannot_lead_out_of_its_uri() -> None:
    response = HttpResponse(b"x", content_type="application/pdf")
    response["Content-Disposition"] = "attachment; filename*=utf-8''..%2F..%2Fetc%2F%C3%BC%3Fx%23y.pdf"
    (block,) = told(response).content
    assert isinstance(block, EmbeddedResource)
    assert block.resource.uri == "attachment:///%C3%BC%3Fx%23y.pdf"


def test_what_was_made_has_its_address_told() -> None:
    assert told(HttpResponse(status=201, headers={"Location": "/a/7/"})).text == "Done: /a/7/"


def test_a_response_is_closed_and_the_request_that_brought_it_goes_on() -> None:
    from io import BytesIO

    from django.core.signals import request_finished

    heard: list[Any] = []

    def hear(**keywords: Any) -> None:
        heard.append(keywords)

    request_finished.connect(hear)
    file = BytesIO(b"x")
    try:
        told(FileResponse(file))
    finally:
        request_finished.disconnect(hear)
    assert (file.closed, heard) == (True, [])


class TestRefusals:
    def test_json_tells_each_field(self, subtests: pytest.Subtests) -> None:
        for status, body, words in [
            (400, {"people": ["Too many.", "Really."]}, "The request was not accepted. people: Too many. Really."),
            (400, {"errors": {"a": {"b": ["Bad."]}}}, "The request was not accepted. a.b: Bad."),
            (400, {"rows": [{}, {"day": ["Bad."]}]}, "The request was not accepted. rows[1].day: Bad."),
            (400, {"non_field_errors": ["Both."]}, "The request was not accepted. Both."),
            (400, {"title": ["Too long."]}, "The request was not accepted. title: Too long."),
            (400, {"title": "Bad", "detail": "No seats."}, "The request was not accepted. Bad\nNo seats."),
            (400, ["One.", "Two."], "The request was not accepted. One. Two."),
            (422, {"detail": [{"type": "x", "loc": ["body", "n"], "msg": "Bad."}]}, "Unprocessable Entity. n: Bad."),
            (404, {"detail": "Not found."}, "Not found."),
            (404, {"error": "no such flight"}, "Not found. no such flight"),
            (403, {"detail": "Ask Ann."}, "You do not have permission to do this. Ask Ann."),
            (401, {}, "Authentication is required for this."),
            (409, None, "The request conflicts with existing data."),
        ]:
            with subtests.test(status=status, body=body, words=words):
                assert refusal(JsonResponse(body, status=status, safe=False)) in (
                    words,
                    words.replace("Entity", "Content"),
                )

    def test_a_page_is_read(self) -> None:
        page = "<title>x</title><nav>y</nav><ul class=errorlist><li>Too many.</ul><form>z</form>"
        assert refusal(HttpResponse(page, status=400)) == "The request was not accepted. Too many."
        assert refusal(HttpResponse("<h1>Not Found</h1>", status=404)) == "Not Found"

    def test_nothing_endless_is_told(self) -> None:
        assert len(refusal(HttpResponse("x" * 10**6, status=400, content_type="text/plain"))) < 4100

    def test_when_to_come_back_is_told(self, subtests: pytest.Subtests) -> None:
        for status, (after, words) in product(
            [429, 503], [("30", "Retry after 30 seconds."), ("Fri, 01 Jan 2027", "Retry after Fri, 01 Jan 2027.")]
        ):
            with subtests.test(status=status, after=after, words=words):
                assert refusal(HttpResponse(status=status, headers={"Retry-After": after})).endswith(words)

    def test_what_is_no_fault_of_the_caller_is_for_the_log(self, subtests: pytest.Subtests) -> None:
        for status in [500, 502, 405]:
            with subtests.test(status=status), pytest.raises(ServerError, match="/a/"):
                told(HttpResponse("secret", status=status))

    def test_a_page_with_errors_that_was_only_looked_at_is_a_page(self) -> None:
        page = '<h1>Book</h1><ul class="errorlist" id="id_people_error"><li>Too many.</li></ul>'
        assert told(HttpResponse(page)).text == "# Book\n\n- Error: Too many."
        with pytest.raises(ToolError, match=r"The form has errors.\npeople: Too many."):
            told(HttpResponse(page), "POST")

    def test_an_error_that_quotes_the_input_is_told_in_part(self) -> None:
        page = f'<ul class="errorlist" id="id_seat_error"><li>{"x" * 10**6} is not one of the choices.</li></ul>'
        with pytest.raises(ToolError, match=r"The form has errors.\nseat: x+…\Z") as found:
            told(HttpResponse(page), "POST")
        assert len(str(found.value)) < 4100
