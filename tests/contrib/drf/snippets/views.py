"""The API."""

from typing import Any

from django.contrib.auth.models import User
from django.http import HttpRequest
from rest_framework import permissions, renderers, viewsets
from rest_framework.decorators import action
from rest_framework.response import Response

from tests.contrib.drf.snippets.models import Snippet
from tests.contrib.drf.snippets.permissions import IsOwnerOrReadOnly
from tests.contrib.drf.snippets.serializers import SnippetSerializer, UserSerializer


class SnippetViewSet(viewsets.ModelViewSet):
    """Code that people keep, and show to others."""

    queryset = Snippet.objects.select_related("owner")
    serializer_class = SnippetSerializer
    permission_classes = [permissions.IsAuthenticatedOrReadOnly, IsOwnerOrReadOnly]

    @action(detail=True, renderer_classes=[renderers.StaticHTMLRenderer])
    def highlight(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Response:
        """A snippet as a page for people."""
        return Response(self.get_object().page)

    def perform_create(self, serializer: Any) -> None:
        serializer.save(owner=self.request.user)


class UserViewSet(viewsets.ReadOnlyModelViewSet):
    """People who keep snippets."""

    queryset = User.objects.order_by("pk")
    serializer_class = UserSerializer
