"""What careful sites have."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse


class OwnScriptsOnly:
    """No script runs that is not a file of this site's."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        response.headers["Content-Security-Policy"] = "script-src 'self'; object-src 'none'; base-uri 'none'"
        return response
