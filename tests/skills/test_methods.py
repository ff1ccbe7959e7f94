"""What clients are served of skills: the extension's methods, the resources, and what older clients see of them."""

import base64
import hashlib
import json
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser

from django_mcp import BaseAuthentication, Context, MCPServer, Principal, RequestHead, resource, skill, tool
from tests.clients import LEGACY, META, MODERN, Client
from tests.conversation import Conversation
from tests.exchange import Room
from tests.skills.conftest import WORDS, Serve, Write, skill_md

EXTENSION = META + "skills"
URI = "skill://plan-a-trip/SKILL.md"
ROOT = "skill://plan-a-trip"


@pytest.fixture
def trip(write: Write) -> None:
    """A skill with files beside it, in a subfolder and in a subfolder of that; and another skill."""
    write(
        "plan-a-trip", {"references/visa.md": "# Visa", "references/maps/a map.png": b"\x89PNG", "prices.csv": "a,b\n"}
    )
    write("refunds", description="Refund a trip.")


@pytest.fixture
def older(server: MCPServer, edge: str, open_database: None) -> Client:
    return Client(server, LEGACY, edge)


def capabilities(client: Client) -> dict[str, Any]:
    return client.request("server/discover").result["capabilities"]


def entries(client: Client) -> list[dict[str, Any]]:
    return client.request("skills/list").result["skills"]


def test_the_extension_is_told_of_with_its_settings_where_there_is_a_skill(
    server: MCPServer, modern: Client, serve: Serve, trip: None
) -> None:
    tool(server=server, name="x")(lambda: "x")
    assert "extensions" not in capabilities(modern)
    assert modern.request("skills/list").code == -32601

    serve()

    assert capabilities(modern)["extensions"] == {EXTENSION: {"directoryRead": True}}
    assert "resources" in capabilities(modern)


def test_a_listed_skill_is_its_front_matter_and_all_its_files(modern: Client, serve: Serve, trip: None) -> None:
    serve()

    result = modern.request("skills/list").result

    assert [each["uri"] for each in result["skills"]] == [URI, "skill://refunds/SKILL.md"]
    assert result["skills"][0]["frontmatter"] == {"name": "plan-a-trip", "description": WORDS}
    assert [each["uri"] for each in result["skills"][0]["resources"]] == [
        URI,
        f"{ROOT}/prices.csv",
        f"{ROOT}/references/maps/a%20map.png",
        f"{ROOT}/references/visa.md",
    ]
    assert (result["resultType"], result["ttlMs"], result["cacheScope"]) == ("complete", 60_000, "public")
    assert "nextCursor" not in result


def test_what_is_read_of_a_file_has_the_digest_and_size_that_were_told(
    modern: Client, serve: Serve, trip: None
) -> None:
    serve()

    for each in entries(modern)[0]["resources"]:
        (content,) = modern.request("resources/read", {"uri": each["uri"]}).result["contents"]
        data = content["text"].encode() if "text" in content else base64.b64decode(content["blob"])
        assert (f"sha256:{hashlib.sha256(data).hexdigest()}", len(data)) == (each["digest"], each["size"])
        assert content["uri"] == each["uri"]


def test_one_skill_is_got_by_its_uri_as_it_is_listed(modern: Client, serve: Serve, trip: None) -> None:
    serve()

    result = modern.request("skills/get", {"uri": URI}).result

    assert result["skill"] == entries(modern)[0]
    assert (result["ttlMs"], result["cacheScope"]) == (60_000, "public")
    assert "nextCursor" not in result


def test_what_is_no_skill_cannot_be_got(
    server: MCPServer, modern: Client, serve: Serve, trip: None, subtests: pytest.Subtests
) -> None:
    resource("test://plain", server=server)(lambda: "x")
    serve()
    for uri in [
        "skill://nobody/SKILL.md",
        ROOT,
        f"{ROOT}/prices.csv",
        f"{ROOT}/SKILL.MD",
        "test://plain",
        "",
        "skill://",
    ]:
        with subtests.test(uri=uri):
            answer = modern.request("skills/get", {"uri": uri})

            assert answer.code == -32602
            assert answer.error["message"] == f"No skill found at {uri}."


def test_a_uri_is_a_string(modern: Client, serve: Serve, trip: None, subtests: pytest.Subtests) -> None:
    serve()
    for method, params in product(["skills/get", "resources/directory/read"], [{}, {"uri": 3}, {"uri": None}]):
        with subtests.test(method=method, params=params):
            assert modern.request(method, params).code == -32602


def test_the_list_has_pages_and_each_skill_is_on_one_of_them(
    make_server: Callable[..., MCPServer], write: Write, serve: Serve, open_database: None
) -> None:
    server = make_server("paged", skills=True, page_size=2)
    for number in range(5):
        write(f"skill-{number}")
    serve()
    client = Client(server, MODERN, "asgi")

    pages, params = [], {}
    while "cursor" in params or not pages:
        result = client.request("skills/list", params).result
        pages.append([each["frontmatter"]["name"] for each in result["skills"]])
        params = {"cursor": result["nextCursor"]} if "nextCursor" in result else {}

    assert pages == [["skill-0", "skill-1"], ["skill-2", "skill-3"], ["skill-4"]]
    assert client.request("skills/list", {"cursor": "no cursor"}).code == -32602


def test_a_skill_is_listed_as_a_resource_with_name_and_description_of_its_front_matter(
    client: Client, serve: Serve, write: Write
) -> None:
    description = "First line,\n\n  second line.\n"
    where = write("plan-a-trip", {"prices.csv": ""}, description="|\n  First line,\n\n    second line.")

    serve()

    assert client.list("resources/list") == [
        {
            "uri": URI,
            "name": "plan-a-trip",
            "description": description,
            "mimeType": "text/markdown",
            "size": (where / "SKILL.md").stat().st_size,
        }
    ]
    (template,) = client.list("resources/templates/list")
    assert template["uriTemplate"] == f"{ROOT}/{{+path}}"


def test_clients_of_every_version_read_skills_and_their_files_as_resources(
    client: Client, serve: Serve, trip: None
) -> None:
    serve()

    assert client.request("resources/read", {"uri": URI}).result["contents"] == [
        {"uri": URI, "mimeType": "text/markdown", "text": skill_md("plan-a-trip")}
    ]
    for uri in (f"{ROOT}/references/maps/a%20map.png", f"{ROOT}/references/maps/a map.png"):
        assert client.request("resources/read", {"uri": uri}).result["contents"] == [
            {
                "uri": f"{ROOT}/references/maps/a%20map.png",
                "mimeType": "image/png",
                "blob": base64.b64encode(b"\x89PNG").decode(),
            }
        ]


def test_older_clients_are_told_of_no_extension_and_have_no_methods_of_it(
    older: Client, serve: Serve, trip: None
) -> None:
    serve()

    hello = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    assert "extensions" not in older.request("initialize", hello).result["capabilities"]
    for method in ("skills/list", "skills/get", "resources/directory/read"):
        assert older.request(method, {"uri": URI}).code == -32601


def test_what_is_no_file_of_the_skill_is_not_found(
    client: Client, serve: Serve, trip: None, subtests: pytest.Subtests
) -> None:
    serve()
    for path in [
        "nothing.md",
        "references",
        "../refunds/SKILL.md",
        "references/../SKILL.md",
        "%2e%2e/refunds/SKILL.md",
        "references/%2e%2e/%2e%2e/%2e%2e/conftest.py",
        "//etc/passwd",
        "SKILL.md/",
        "./SKILL.md",
        "prices.csv%00",
    ]:
        with subtests.test(path=path):
            assert client.request("resources/read", {"uri": f"{ROOT}/{path}"}).code in {-32602, -32002}


def test_a_directory_shows_its_direct_children(modern: Client, serve: Serve, trip: None) -> None:
    serve()

    result = modern.request("resources/directory/read", {"uri": ROOT}).result

    assert result["resources"] == [
        modern.list("resources/list")[0],
        {"uri": f"{ROOT}/prices.csv", "name": "prices.csv", "mimeType": "text/csv", "size": 4},
        {"uri": f"{ROOT}/references", "name": "references", "mimeType": "inode/directory"},
    ]
    assert (result["ttlMs"], result["cacheScope"]) == (60_000, "public")
    inside = modern.request("resources/directory/read", {"uri": f"{ROOT}/references"}).result["resources"]
    assert [each["uri"] for each in inside] == [f"{ROOT}/references/visa.md", f"{ROOT}/references/maps"]


def test_an_empty_directory_has_no_children(modern: Client, serve: Serve, write: Write) -> None:
    (write("plan-a-trip") / "a b").mkdir()
    serve()

    assert modern.request("resources/directory/read", {"uri": f"{ROOT}/a%20b"}).result["resources"] == []


def test_what_is_no_directory_cannot_be_read_as_one(
    modern: Client, serve: Serve, trip: None, subtests: pytest.Subtests
) -> None:
    serve()
    for uri in [URI, f"{ROOT}/", f"{ROOT}/prices.csv", f"{ROOT}/nothing", "skill://nobody", "skill://", f"{ROOT}/.."]:
        with subtests.test(uri=uri):
            assert modern.request("resources/directory/read", {"uri": uri}).code == -32602


def test_a_large_directory_has_pages(
    make_server: Callable[..., MCPServer], write: Write, serve: Serve, open_database: None
) -> None:
    server = make_server("paged", skills=True, page_size=2)
    write("plan-a-trip", {"a.md": "", "b/c.md": "", "d.md": ""})
    serve()
    client = Client(server, MODERN, "asgi")

    first = client.request("resources/directory/read", {"uri": ROOT}).result
    second = client.request("resources/directory/read", {"uri": ROOT, "cursor": first["nextCursor"]}).result

    names = [[each["name"] for each in page["resources"]] for page in (first, second)]
    assert names == [["plan-a-trip", "a.md"], ["d.md", "b"]]
    assert "nextCursor" not in second
    assert client.request("resources/directory/read", {"uri": ROOT, "cursor": "no cursor"}).code == -32602


def everything(client: Client) -> list[Any]:
    """All that a client can find out about the skill."""
    asked = [
        ("skills/get", {"uri": URI}),
        ("resources/directory/read", {"uri": ROOT}),
        ("resources/directory/read", {"uri": f"{ROOT}/references"}),
        ("resources/read", {"uri": URI}),
        ("resources/read", {"uri": f"{ROOT}/prices.csv"}),
    ]
    answers = [client.request(method, params).json for method, params in asked]
    lists = [client.list("resources/list"), client.list("resources/templates/list"), entries(client)]
    return [*(each.get("error", "a result") for each in answers), *lists]


def test_a_skill_that_is_hidden_is_in_no_list_and_gets_the_words_for_one_that_does_not_exist(
    modern: Client, serve: Serve, trip: None
) -> None:
    told: list[bool] = [False]

    def may(ctx: Context) -> bool:
        return told[0]

    serve(lambda: skill("plan-a-trip", visible=may))

    hidden = everything(modern)
    told[0] = True
    shown = everything(modern)

    assert [each["uri"] for each in hidden[5]] == ["skill://refunds/SKILL.md"]
    assert [each["uriTemplate"] for each in hidden[6]] == ["skill://refunds/{+path}"]
    assert [each["uri"] for each in hidden[7]] == ["skill://refunds/SKILL.md"]
    missing = [modern.request("skills/get", {"uri": "skill://nobody/SKILL.md"}).error]
    missing += [
        modern.request("resources/directory/read", {"uri": f"skill://nobody{sub}"}).error for sub in ("", "/references")
    ]
    missing += [
        modern.request("resources/read", {"uri": f"skill://nobody/{path}"}).error for path in ("SKILL.md", "prices.csv")
    ]
    assert str(hidden[:5]).replace("plan-a-trip", "nobody") == str(missing)
    assert shown[:5] == ["a result"] * 5
    assert [len(each) for each in shown[5:]] == [2, 2, 2]


def test_a_skill_that_depends_on_the_caller_is_kept_in_no_shared_cache(
    modern: Client, serve: Serve, trip: None
) -> None:
    serve(lambda: skill("plan-a-trip", visible=lambda ctx: True))

    assert modern.request("skills/list").result["cacheScope"] == "private"
    assert modern.request("skills/get", {"uri": URI}).result["cacheScope"] == "private"
    assert modern.request("resources/directory/read", {"uri": ROOT}).result["cacheScope"] == "private"
    assert modern.request("skills/get", {"uri": "skill://refunds/SKILL.md"}).result["cacheScope"] == "public"


class Narrow(BaseAuthentication):
    """Lets everybody in with a credential that allows ``mcp``, and that can be made to allow more."""

    blocking = False

    def authenticate(self, head: RequestHead, server: object) -> Principal:
        return Principal("test", "narrow", AnonymousUser(), scopes=frozenset({"mcp"}), steps_up=True)


def test_a_skill_that_needs_more_scopes_is_listed_and_answered_with_what_to_ask_for(
    make_server: Callable[..., MCPServer], serve: Serve, trip: None, open_database: None, subtests: pytest.Subtests
) -> None:
    server = make_server("scoped", skills=True, authentication=[Narrow()], scopes=["mcp"])
    serve(lambda: skill("plan-a-trip", scopes=["travel:read"]))
    client = Client(server, MODERN, "asgi")
    for method, uri in [
        ("skills/get", URI),
        ("resources/directory/read", ROOT),
        ("resources/directory/read", f"{ROOT}/references"),
        ("resources/read", f"{ROOT}/prices.csv"),
    ]:
        with subtests.test(method=method, uri=uri):
            body, headers = client.compose(method, {"uri": uri})
            answer = client.post(json.dumps(body).encode(), headers)

            assert URI in {each["uri"] for each in entries(client)}
            assert answer.status == 403
            assert "travel:read" in answer.headers["www-authenticate"]


@pytest.mark.parametrize("edge", ["asgi"])
def test_clients_listen_for_changes_of_the_files_that_there_are(
    server: MCPServer, serve: Serve, trip: None, edge: str, open_database: None
) -> None:
    serve()
    there = [URI, f"{ROOT}/references/visa.md"]
    asked = {"resourceSubscriptions": [*there, f"{ROOT}/nothing.md", "skill://nobody/SKILL.md"]}

    with Room(server, edge) as room:
        call = Conversation(room, MODERN).begin("subscriptions/listen", {"notifications": asked})
        honoured = call.next()["params"]["notifications"]
        server.notify_resource_updated(there[1])
        told = call.next()

    assert honoured == {"resourceSubscriptions": there}
    assert told["params"]["uri"] == there[1]
