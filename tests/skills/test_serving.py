"""Which skills are served where: found in installed apps, and as ``skill()`` says."""

import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured
from django.test import override_settings

from django_mcp import MCPServer, skill, tool
from django_mcp import server as default
from django_mcp.skills.skill import Root, find_skills
from tests.clients import LEGACY, MODERN, Client
from tests.skills.conftest import Serve, Write, skill_md


def uris(server: MCPServer) -> list[str]:
    """Skills, as clients are told of them."""
    answer = Client(server, MODERN, "asgi").request("skills/list").json
    return [each["uri"] for each in answer["result"]["skills"]] if "result" in answer else []


@pytest.fixture
def make_app(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_server: Callable[..., MCPServer]
) -> Iterator[Callable[..., override_settings]]:
    """Makes an app package with a skill; what comes back installs it."""
    monkeypatch.syspath_prepend(tmp_path)

    def make(name: str, mcp: str = "", **files: str) -> override_settings:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
        (tmp_path / name / "mcp.py").write_text(mcp)
        for skill_name, text in files.items():
            folder = tmp_path / name / "skills" / skill_name
            folder.mkdir(parents=True)
            (folder / "SKILL.md").write_text(text)
        return override_settings(INSTALLED_APPS=[*settings.INSTALLED_APPS, name])

    yield make
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


def test_skills_of_installed_apps_are_at_the_default_endpoint(make_app: Any, open_database: None) -> None:
    with make_app("holiday", packing=skill_md("packing")):
        assert "skill://packing/SKILL.md" in uris(default)


def test_they_are_told_of_like_any_other_resource(
    make_app: Any, open_database: None, subtests: pytest.Subtests
) -> None:
    with make_app("holiday", packing=skill_md("packing")):
        for version in (MODERN, LEGACY):
            with subtests.test(version=version):
                listed = {each["uri"]: each["name"] for each in Client(default, version, "asgi").list("resources/list")}
                assert listed["skill://packing/SKILL.md"] == "packing"


def test_a_skill_that_is_wrong_is_told_by_a_check_and_the_others_are_served(
    serve: Serve, write: Write, server: MCPServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write("packing")
    write("baggage", {"SKILL.md": skill_md("luggage")})
    write("visa", {"SKILL.md": skill_md("visa", "with: colon")})

    made = serve(lambda: skill("visa", permission="travel.view_booking"))
    monkeypatch.setattr("django_mcp.skills.checks.skills", made)

    assert uris(server) == ["skill://packing/SKILL.md"]
    told = [str(each.msg) for each in run_checks(tags=["django_mcp"]) if each.id == "django_mcp.E053"]
    assert len(told) == 2
    assert "baggage/SKILL.md has the name 'luggage'" in told[0]
    assert "visa/SKILL.md cannot be read: line 3: mapping values are not allowed here" in told[1]
    logged = [each.getMessage() for each in caplog.records if each.levelno == logging.ERROR]
    assert all(any(problem in line for line in logged) for problem in told)


def test_an_endpoint_has_skills_where_it_is_told_to(
    make_server: Callable[..., MCPServer], serve: Serve, write: Write, open_database: None
) -> None:
    write("packing")
    takes, does_not = make_server("takes", skills=True), make_server("other")

    serve()

    assert uris(takes) == ["skill://packing/SKILL.md"]
    assert uris(does_not) == []
    assert "skill://packing/SKILL.md" in uris(default)


def test_a_default_endpoint_that_is_not_served_does_not_come_to_life(
    make_server: Callable[..., MCPServer],
    serve: Serve,
    write: Write,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    write("packing")
    tool(server=make_server("own"), name="x")(lambda: "x")
    default.remove(lambda primitive: True)

    serve()

    assert default.is_empty()
    assert "skills/packing is not served" in caplog.text


def test_a_skill_goes_where_it_is_said_and_nowhere_else(
    server: MCPServer, make_server: Callable[..., MCPServer], serve: Serve, write: Write, open_database: None
) -> None:
    write("packing")
    write("refunds")
    staff, desk = make_server("office"), make_server("desk")

    serve(lambda: skill("refunds", server=[staff, desk]))

    assert uris(server) == ["skill://packing/SKILL.md"]
    assert uris(staff) == uris(desk) == ["skill://refunds/SKILL.md"]


def test_what_is_said_of_an_app_holds_for_its_skills_and_one_of_them_may_say_otherwise(
    server: MCPServer, make_server: Callable[..., MCPServer], serve: Serve, write: Write
) -> None:
    write("packing")
    write("refunds")
    staff = make_server("office")

    serve(
        lambda: skill(app="holiday", permission="travel.view_booking", tags=["holiday"], server=[server, staff]),
        lambda: skill("refunds", permission="travel.refund_booking", server=staff),
    )

    for there in (server, staff):
        resource = there.resources["skill://packing/SKILL.md"]
        assert (resource.permissions, resource.tags) == (("travel.view_booking",), {"holiday"})
    for registry, uri in ((staff.resources, "skill://refunds/SKILL.md"), (staff.templates, "skill://refunds/{+path}")):
        assert registry[uri].permissions == ("travel.refund_booking",)
        assert registry[uri].tags == {"holiday"}
    assert "skill://refunds/SKILL.md" not in server.resources


def test_endpoints_of_a_selection_take_skills_by_their_tags(
    server: MCPServer, make_server: Callable[..., MCPServer], serve: Serve, write: Write, open_database: None
) -> None:
    write("packing", {"list.md": "socks"})
    write("refunds")
    chosen = make_server("chosen", include_tags=["holiday"], source=server)

    serve(lambda: skill("packing", tags=["holiday"]))

    client = Client(chosen, MODERN, "asgi")
    assert uris(chosen) == ["skill://packing/SKILL.md"]
    assert client.request("resources/read", {"uri": "skill://packing/list.md"}).result["contents"][0]["text"] == "socks"
    assert "extensions" in client.request("server/discover").result["capabilities"]


def test_an_endpoint_that_takes_over_and_takes_skills_has_each_once(
    server: MCPServer, make_server: Callable[..., MCPServer], serve: Serve, write: Write, open_database: None
) -> None:
    write("packing")
    both = make_server("both", source=server, skills=True)

    serve()

    assert uris(both) == ["skill://packing/SKILL.md"]


def test_an_endpoint_made_after_the_start_has_its_skills_too(
    make_app: Any, make_server: Callable[..., MCPServer], open_database: None
) -> None:
    with make_app("holiday", packing=skill_md("packing")):
        late = make_server("late", skills=True)

        assert "skill://packing/SKILL.md" in uris(late)


def test_folders_group_skills_and_their_names_are_in_the_uri(
    server: MCPServer, serve: Serve, write: Write, open_database: None
) -> None:
    write("billing/refunds", {"a.md": "a"})
    write("support/refunds")

    serve(lambda: skill("billing/refunds", tags=["money"]))

    assert uris(server) == ["skill://billing/refunds/SKILL.md", "skill://support/refunds/SKILL.md"]
    assert server.resources["skill://billing/refunds/SKILL.md"].tags == {"money"}
    read = Client(server, MODERN, "asgi").request("resources/read", {"uri": "skill://billing/refunds/a.md"})
    assert read.result["contents"][0]["text"] == "a"


def test_a_skill_inside_a_skill_is_a_part_of_it(
    server: MCPServer, serve: Serve, write: Write, open_database: None
) -> None:
    write("plan-a-trip", {"packing/SKILL.md": skill_md("packing")})

    serve()

    (entry,) = Client(server, MODERN, "asgi").request("skills/list").result["skills"]
    assert [each["uri"] for each in entry["resources"]] == [
        "skill://plan-a-trip/SKILL.md",
        "skill://plan-a-trip/packing/SKILL.md",
    ]


def test_folders_without_a_skill_are_none_of_our_business(
    server: MCPServer, serve: Serve, write: Write, root: Path, open_database: None
) -> None:
    write("packing")
    (root / "__init__.py").touch()
    for name in ("models", ".git", "__pycache__", "Not_A_Skill/deeper"):
        (root / name).mkdir(parents=True)
        (root / name / "README.md").touch()

    serve()

    assert uris(server) == ["skill://packing/SKILL.md"]


def test_a_skill_md_in_other_letters_is_refused(serve: Serve, root: Path) -> None:
    (root / "packing").mkdir()
    (root / "packing" / "skill.md").write_text(skill_md("packing"))

    assert "a file skill.md; it must be named SKILL.md" in serve().wrong["packing"]


def test_a_skill_whose_folder_is_a_link_out_of_the_app_is_refused(serve: Serve, write: Write, tmp_path: Path) -> None:
    write("packing").rename(tmp_path / "packing")
    (tmp_path / "skills" / "packing").symlink_to(tmp_path / "packing")

    assert "a link that leads out of it" in serve().wrong["packing"]


def test_two_skills_at_one_place_are_refused_and_both_are_named(
    write: Write, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    write("packing")
    for where, other in {"same": "packing", "within": "packing/light"}.items():
        folder = tmp_path / where / other
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(skill_md(folder.name))
        with subtests.test(where):
            found, wrong = find_skills([Root("holiday", tmp_path / "skills"), Root("more_travel", tmp_path / where)])
            assert list(found) == ["packing"]
            assert str(tmp_path / "skills" / "packing") in wrong[other]
            assert str(folder) in wrong[other]
            assert f"skills/more-travel/{folder.name}/SKILL.md" in wrong[other]


def test_a_resource_of_the_site_at_the_same_uri_is_refused(server: MCPServer, serve: Serve, write: Write) -> None:
    from django_mcp import resource

    write("packing")
    resource("skill://packing/SKILL.md", server=server)(lambda: "x")

    with pytest.raises(ImproperlyConfigured, match=r"skill .packing..*have the same key"):
        serve()


def test_what_cannot_be_meant_stops_the_start(
    serve: Serve, write: Write, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    write("packing")
    declarations: list[tuple[Any, str]] = [
        (
            lambda: skill("baggage", permission="travel.view_booking"),
            "skill('baggage'): no installed app has such a skill",
        ),
        (lambda: skill(app="nobody", groups=["Desk"]), "skill(app='nobody'): no installed app has such a skill"),
        (skill, "either the path of a skill or the label of an app"),
        (lambda: skill("packing", app="holiday"), "either the path of a skill or the label of an app"),
        (lambda: (skill("packing"), skill("packing")), "'packing' was already declared"),
        (lambda: skill("packing", server=default.namespace("x")), "server must be an endpoint"),
        (lambda: skill("packing", permission="view_booking"), "must have the form 'app_label.codename'"),
        (lambda: skill("packing", groups="Desk"), "groups must be a list, like ['Desk']"),
    ]
    for declare, words in declarations:
        with subtests.test(words=words):
            monkeypatch.setattr("django_mcp.skills.declaration._declared", {})
            with pytest.raises(ImproperlyConfigured) as refused:
                serve(declare)
            assert words in str(refused.value)
