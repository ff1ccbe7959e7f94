"""A deployment in which nothing is wrong gives no warning."""

import os
from pathlib import Path

import pytest

from tests.doctor.conftest import SERVERS, Deployment, command, deployed, manage

HINTS = {"database.sqlite", "layer.none"}


@pytest.mark.parametrize("kind", SERVERS)
def test_a_healthy_deployment_gives_no_warning(kind: str, tmp_path: Path) -> None:
    with deployed(kind, tmp_path) as deployment:
        report = deployment.look()
    streams = {"streams.wsgi"} if kind == "gunicorn" else set()
    assert set(report.found) - streams <= HINTS, report.text
    assert streams <= set(report.found)
    assert report.code == 0
    assert all(not check["skipped"] for check in report.document["checks"]), report.text


@pytest.mark.needs("REDIS_URL")
def test_a_healthy_deployment_with_redis_gives_no_warning(tmp_path: Path) -> None:
    with deployed("uvicorn", tmp_path, DOCTOR_REDIS=os.environ["REDIS_URL"]) as deployment:
        report = deployment.look()
    assert set(report.found) == {"database.sqlite"}, report.text


def test_an_endpoint_for_everybody_needs_no_credential(tmp_path: Path) -> None:
    everybody = {"DOCTOR_MCP": '{"AUTHENTICATION": ["django_mcp.AllowAny"]}', "DOCTOR_SILENCED": "django_mcp.W004"}
    with deployed("uvicorn", tmp_path, **everybody) as deployment:
        report = deployment.look(who=())
    assert set(report.found) <= HINTS, report.text


def test_without_a_credential_what_everybody_sees_is_looked_at(deployment: Deployment) -> None:
    report = deployment.look(who=())
    assert set(report.found) == {*HINTS, "credential.none"}, report.text


def test_nothing_is_left_behind(deployment: Deployment) -> None:
    deployment.look()
    count = """
from django_mcp.models import APIKey, Session
print("LEFT", APIKey.objects.filter(name="mcp_doctor").count(), Session.objects.count())
"""
    assert "LEFT 0 0" in manage(deployment.environment, "shell", "-c", count)


def test_people_read_a_line_for_each_check(deployment: Deployment) -> None:
    environment = {**deployment.environment, "PYTHONIOENCODING": "utf-8"}
    said = command(environment, "--as", "ada").stdout
    assert f"{deployment.url}, endpoint 'default'" in said
    assert "✓  Reachable        127.0.0.1:" in said
    assert said.endswith("\n2 hints.\n")


def test_a_terminal_without_signs_gets_letters(deployment: Deployment) -> None:
    said = command({**deployment.environment, "PYTHONIOENCODING": "ascii"}, "--as", "ada").stdout
    assert "ok Reachable        127.0.0.1:" in said
