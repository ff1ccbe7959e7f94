"""What Docker and nginx are told fits together: names, files, commands, times."""

import json
import os
import re
import shlex
import shutil
import subprocess
from fnmatch import fnmatch
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from django.core.management import get_commands

from benchmarks.scale import nginx
from deploy import health
from tests.deploy.files import DEPLOY, ROOT, command, compose, dockerfile, example, services, values
from tests.docs.test_blocks import code_of

NGINX = shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:" + os.environ.get("PATH", ""))
COMPOSE = shutil.which("docker") and subprocess.run(["docker", "compose", "version"], capture_output=True, check=False)
SECONDS = {"s": 1, "m": 60}


def seconds(text: str) -> int:
    return int(text[:-1]) * SECONDS[text[-1]]


def option(name: str) -> int:
    """The number behind an option of the worker's command."""
    return int(command()[command().index(name) + 1])


def copied() -> list[str]:
    """What the Dockerfile copies out of the repository."""
    lines = [value for value in values("COPY") if not value.startswith("--from")]
    return [source for line in lines for source in line.split()[:-1]]


def test_what_the_dockerfile_copies_is_there_and_not_ignored(subtests: pytest.Subtests) -> None:
    for source in copied():
        with subtests.test(source=source):
            assert (ROOT / source).exists()
            ignored = False
            for line in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines():
                pattern = line.removeprefix("!")
                if any(fnmatch(each, pattern) for each in (source, source.partition("/")[0])):
                    ignored = not line.startswith("!")
            assert not ignored


def test_secrets_stay_out_of_images_and_of_git() -> None:
    assert "deploy/.env" in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    assert ".env" in (ROOT / ".gitignore").read_text().splitlines()


def test_stages_copy_from_stages_before_them_and_the_site_is_the_last() -> None:
    stages = list(dict.fromkeys(line.stage for line in dockerfile()))
    assert stages[-1] == "site"
    for stage, name, value in dockerfile():
        if name == "COPY" and value.startswith("--from="):
            assert stages.index(value.split()[0].removeprefix("--from=")) < stages.index(stage)


def test_no_compiler_and_no_root_is_in_the_image_that_runs() -> None:
    names = [line.name for line in dockerfile() if line.stage == "site"]
    assert "slim" in values("FROM", "site")[0]
    assert values("USER", "site") == ["site"]
    assert not any("pip" in value or "apt-get" in value for value in values("RUN", "site"))
    assert names.index("USER") < names.index("CMD")
    assert max(index for index, name in enumerate(names) if name in {"COPY", "RUN"}) < names.index("USER")


def test_signals_reach_the_server_and_calls_have_time_to_end() -> None:
    assert command()[0] == "uvicorn", "no shell around it"
    assert option("--timeout-graceful-shutdown") == 10
    for name in ("worker-1", "worker-2"):
        assert seconds(services()[name]["stop_grace_period"]) > option("--timeout-graceful-shutdown")


def test_the_worker_closes_idle_connections_later_than_nginx() -> None:
    of_nginx = re.search(r"keepalive_timeout (\w+);", (DEPLOY / "nginx.conf").read_text())[1]
    assert option("--timeout-keep-alive") > seconds(of_nginx)


def test_nginx_is_told_what_the_page_on_many_machines_says_of_these_workers() -> None:
    text = (DEPLOY / "nginx.conf").read_text()
    workers = re.findall(r"server (\S+:\d+) ", text)
    assert workers == [f"{name}:{option('--port')}" for name in services() if name.startswith("worker-")]
    wanted = nginx.pool("mcp", workers) + "\n" + nginx.site("mcp", "80").rstrip("}\n")
    assert wanted in text


def test_the_health_check_asks_the_worker_at_its_port() -> None:
    assert urlsplit(health.URL).port == option("--port") == int(values("EXPOSE", "site")[0])
    assert values("HEALTHCHECK", "site")[0].endswith('CMD ["python", "deploy/health.py"]')


@pytest.mark.skipif(NGINX is None, reason="nginx is not installed")
def test_nginx_takes_its_configuration(tmp_path: Path) -> None:
    sites = (DEPLOY / "nginx.conf").read_text().replace("listen 80;", "listen 8001;")
    file = tmp_path / "nginx.conf"
    file.write_text(nginx.AROUND.format(user="", directory=tmp_path, sites=re.sub(r"worker-\d:", "127.0.0.1:", sites)))
    done = subprocess.run(  # noqa: PLW1510 - the test looks at how it ended
        [NGINX, "-t", "-p", str(tmp_path), "-c", str(file)], capture_output=True, text=True, timeout=20
    )
    assert done.returncode == 0, done.stderr


def test_services_wait_for_services_that_can_say_when_they_are_ready() -> None:
    for name, service in services().items():
        for other, how in service.get("depends_on", {}).items():
            assert other in services(), name
            if how["condition"] == "service_healthy":
                target = services()[other].get("build", {}).get("target")
                assert "healthcheck" in services()[other] or values("HEALTHCHECK", target), f"{name} waits for {other}"
            else:
                assert how["condition"] == "service_completed_successfully"
                assert services()[other]["restart"] == "no", f"{other} has to come to its end"


def test_services_are_built_from_stages_or_have_a_version() -> None:
    stages = {line.stage for line in dockerfile()}
    for name, service in services().items():
        if "build" in service:
            assert (DEPLOY / service["build"]["context"]).resolve() == ROOT
            assert (ROOT / service["build"]["dockerfile"]) == DEPLOY / "Dockerfile"
            assert service["build"]["target"] in stages
        else:
            assert re.search(r":\d", service["image"]), f"{name} has no version"


def test_volumes_are_declared_and_the_database_has_one() -> None:
    used = {line.partition(":")[0] for service in services().values() for line in service.get("volumes", [])}
    assert used == set(compose()["volumes"]) == {"database"}
    assert services()["database"]["volumes"] == ["database:/var/lib/postgresql/data"]


def test_nobody_but_this_machine_reaches_anything_but_the_proxy() -> None:
    published = {name: service["ports"] for name, service in services().items() if "ports" in service}
    assert published == {"proxy": ["${LISTEN:-127.0.0.1:8080}:80"]}
    assert example()["LISTEN"] == "127.0.0.1:8080"


def test_what_compose_asks_for_is_in_the_example_and_nothing_else() -> None:
    asked = dict(re.findall(r"\$\{(\w+)(:.)", (DEPLOY / "compose.yaml").read_text()))
    assert set(asked) == set(example())
    for name, value in example().items():
        assert value or asked[name] == ":?", f"{name} is empty, and nobody complains"


def test_the_worker_is_given_the_address_that_its_neighbours_have() -> None:
    given = services()["worker-1"]["environment"]
    database = services()["database"]["environment"]
    user, name = database["POSTGRES_USER"], database["POSTGRES_DB"]
    assert re.fullmatch(rf"postgres://{user}:\$\{{POSTGRES_PASSWORD:.*\}}@database:5432/{name}", given["DATABASE_URL"])
    assert given["REDIS_URL"] == "redis://redis:6379/0"
    assert services()["worker-2"]["environment"] == given


@pytest.mark.skipif(
    not COMPOSE or COMPOSE.returncode != 0, reason="there is no docker compose, so nobody but PyYAML reads compose.yaml"
)
def test_compose_takes_its_file(tmp_path: Path) -> None:
    variables = tmp_path / "env"
    variables.write_text("".join(f"{name}={value or 'filled-in'}\n" for name, value in example().items()))
    command = [
        "docker",
        "compose",
        "--file",
        str(DEPLOY / "compose.yaml"),
        "--env-file",
        str(variables),
        "config",
        "-q",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_the_page_names_services_and_commands_that_there_are() -> None:
    lines = [shlex.split(line, comments=True) for code in code_of("docker.md", "sh") for line in code.splitlines()]
    for line in lines:
        named = [each for each in line if re.fullmatch(r"migrate|proxy|worker-\d|database|redis", each)]
        assert set(named) <= set(services())
    commands = {line[line.index("manage.py") + 1] for line in lines if "manage.py" in line}
    assert commands <= set(get_commands())
    (instead,) = re.findall(r"^CMD (.*)$", (ROOT / "docs" / "docker.md").read_text(), re.MULTILINE)
    assert json.loads(instead)[-1] in command()
