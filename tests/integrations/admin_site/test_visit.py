"""Visits to pages of the admin."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.test.signals import template_rendered

from django_mcp import MCPServer, admin_tools
from django_mcp.test import MCPClient
from tests.integrations.admin_site.office import make_city, make_hotel

pytestmark = pytest.mark.django_db


def test_a_row_is_read_without_the_list_of_all_models_beside_its_form(make_server: Any) -> None:
    server: MCPServer = make_server("office", search_tools=0)
    admin_tools(server=server)
    boss, hotel = User.objects.create_superuser("boss"), make_hotel(make_city())
    browser = Client()
    browser.force_login(boss)
    rendered: list[str | None] = []

    def note(template: Any, **_: Any) -> None:
        rendered.append(template.name)

    template_rendered.connect(note)
    try:
        MCPClient(boss, server=server).call("get_hotel", pk=hotel.pk).assert_ok()
        of_the_tool, rendered = rendered, []
        browser.get(f"/admin/travel/hotel/{hotel.pk}/change/")
    finally:
        template_rendered.disconnect(note)
    assert "admin/nav_sidebar.html" in rendered
    assert "admin/nav_sidebar.html" not in of_the_tool
    assert "admin/change_form.html" in of_the_tool
