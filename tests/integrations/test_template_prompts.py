"""Templates of a site as prompts."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from itertools import product
from typing import Annotated, Any, Literal

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.http import Http404
from django.template.loader import render_to_string
from django.test import override_settings
from django.utils.functional import lazy
from pydantic import Field

from django_mcp import Context, MCPServer, ResourceContents, prompt_template, resource, tool, ui
from tests.clients import Client

PROCESSORS = [
    "django.template.context_processors.request",
    "django.contrib.auth.context_processors.auth",
    "tests.integrations.test_template_prompts.house",
]

Files = Callable[[Mapping[str, str]], None]


def house(request: Any) -> dict[str, str]:
    """A context processor of the site's own."""
    return {"house": "Acme Travel"}


@pytest.fixture
def files() -> Iterator[Files]:
    """Makes these the site's templates."""
    with ExitStack() as stack:

        def make(found: Mapping[str, str]) -> None:
            loaders = [("django.template.loaders.locmem.Loader", dict(found))]
            options = {"loaders": loaders, "context_processors": PROCESSORS}
            engine = {"BACKEND": "django.template.backends.django.DjangoTemplates", "OPTIONS": options}
            stack.enter_context(override_settings(TEMPLATES=[engine]))

        yield make


def arguments_of(server: MCPServer) -> dict[str, bool]:
    """Of the only prompt: names, and whether they are required."""
    (prompt,) = server.prompts.values()
    return {each["name"]: each["required"] for each in prompt.definition.get("arguments", ())}


def texts(client: Client, name: str, **arguments: str) -> list[tuple[str, str]]:
    """The messages: who speaks, and what."""
    messages = client.request("prompts/get", {"name": name, "arguments": arguments}).result["messages"]
    return [(each["role"], each["content"].get("text") or each["content"]["type"]) for each in messages]


PLAN = """{% load django_mcp %}{% comment %}
Plan a trip.

Args:
    city: Where to go.
    nights: How long to stay.
{% endcomment %}
Plan a trip to {{ city|title }} for {{ nights|default:"three" }} nights{% if diet %}, with {{ diet }} food{% endif %}.
{% message "assistant" %}
I will look at the weather in {{ city }} first.
{% endmessage %}
Begin.
"""


TAKES = {"city": str, "nights": str | None, "diet": Annotated[str | None, Field(max_length=20)]}


def test_a_template_is_a_prompt_and_its_comment_describes_it(server: MCPServer, client: Client, files: Files) -> None:
    files({"travel/plan.md": PLAN})
    prompt_template("travel/plan.md", title="Plan", server=server, arguments=TAKES)
    assert client.list("prompts/list") == [
        {
            "name": "plan",
            "title": "Plan",
            "description": "Plan a trip.",
            "arguments": [
                {"name": "city", "description": "Where to go.", "required": True},
                {"name": "nights", "description": "How long to stay.", "required": False},
                {"name": "diet", "required": False},
            ],
        }
    ]
    assert texts(client, "plan", city="porto", diet="vegan") == [
        ("user", "Plan a trip to Porto for three nights, with vegan food."),
        ("assistant", "I will look at the weather in porto first."),
        ("user", "Begin."),
    ]


def test_the_site_renders_a_published_template_as_it_did_before(
    server: MCPServer, client: Client, files: Files
) -> None:
    files({"travel/plan.md": PLAN})
    given = {"city": "porto", "diet": "vegan"}
    before = render_to_string("travel/plan.md", given)
    prompt_template("travel/plan.md", server=server, arguments=TAKES)
    assert texts(client, "plan", **given)
    assert render_to_string("travel/plan.md", given) == before
    assert "Plan a trip to Porto for three nights, with vegan food." in before


def test_a_template_takes_no_argument_that_is_not_named(server: MCPServer, client: Client, files: Files) -> None:
    files({"plan.md": "To {{ city }}, {{ secret|default:'nothing' }}."})
    prompt_template("plan.md", server=server, arguments={"city": ""})
    assert arguments_of(server) == {"city": True}
    assert texts(client, "plan", city="Oslo") == [("user", "To Oslo, nothing.")]
    sent = client.request("prompts/get", {"name": "plan", "arguments": {"city": "Oslo", "secret": "x"}})
    assert "Unknown argument 'secret'" in sent.error["message"]


def test_an_argument_with_the_name_of_a_keyword_reaches_the_template(
    server: MCPServer, client: Client, files: Files
) -> None:
    files({"way.md": "From {{ from }} to {{ to }} in {{ class|default:'any class' }}."})
    prompt_template("way.md", server=server, arguments={"from": "", "to": "", "class": str | None})
    assert texts(client, "way", **{"from": "Oslo", "to": "Rome"}) == [("user", "From Oslo to Rome in any class.")]


def test_arguments_are_described_and_typed_where_they_are_named(
    server: MCPServer, client: Client, files: Files
) -> None:
    files(
        {"plan.md": "{{ house }}: {{ city }}, {{ nights|default:2|add:1 }} days, {{ tone }}, {{ user.is_anonymous }}"}
    )
    prompt_template(
        "plan.md",
        server=server,
        arguments={
            "city": "Which city.",
            "nights": Annotated[int | None, Field(ge=1, description="How many nights.")],
            "tone": Annotated[Literal["kind", "sharp"], Field(default="kind")],
        },
    )
    (listed,) = client.list("prompts/list")
    assert listed["arguments"] == [
        {"name": "city", "description": "Which city.", "required": True},
        {"name": "nights", "description": "How many nights.", "required": False},
        {"name": "tone", "required": False},
    ]
    assert texts(client, "plan", city="Oslo", nights="4") == [("user", "Acme Travel: Oslo, 5 days, kind, True")]
    refused = client.request("prompts/get", {"name": "plan", "arguments": {"city": "Oslo", "nights": "0"}})
    assert "Argument 'nights' must be at least 1" in refused.error["message"]
    unknown = client.request("prompts/get", {"name": "plan", "arguments": {"city": "Oslo", "house": "Mine"}})
    assert "Unknown argument 'house'" in unknown.error["message"]
    params = {"ref": {"type": "ref/prompt", "name": "plan"}, "argument": {"name": "tone", "value": "s"}}
    assert client.request("completion/complete", params).result["completion"]["values"] == ["sharp"]


def test_arguments_are_completed_as_those_of_a_function(server: MCPServer, client: Client, files: Files) -> None:
    files({"plan.md": "{{ city }}"})
    prompt_template(
        "plan.md", server=server, arguments={"city": ""}, completions={"city": lambda value: [f"{value}lo"]}
    )
    params = {"ref": {"type": "ref/prompt", "name": "plan"}, "argument": {"name": "city", "value": "Os"}}
    assert client.request("completion/complete", params).result["completion"]["values"] == ["Oslo"]


def test_what_the_caller_sends_is_text_and_nothing_else(server: MCPServer, client: Client, files: Files) -> None:
    files({"say.md": "{% load django_mcp %}{% message 'assistant' %}{{ said }}{% endmessage %}"})
    prompt_template("say.md", server=server, arguments={"said": ""})
    for said in (
        "<b>&amp; 'quoted'</b>",
        "{{ user }}{% load django_mcp %}{% endmessage %}{% message 'user' %}",
        "\ue0000-0\ue001\ue000{}\ue001",
    ):
        assert texts(client, "say", said=said) == [("assistant", said)]


def test_a_template_of_html_is_escaped_as_on_a_page(server: MCPServer, client: Client, files: Files) -> None:
    files({"say.html": "<p>{{ said }}</p>"})
    prompt_template("say.html", server=server, arguments={"said": ""})
    assert texts(client, "say", said="<i>") == [("user", "<p>&lt;i&gt;</p>")]


def test_messages_of_loops_and_includes_come_in_their_order(server: MCPServer, client: Client, files: Files) -> None:
    files({
        "talk.md": "{% load django_mcp %}{% for letter in word %}{{ letter }}{% include 'reply.md' only %}{% endfor %}",
        "reply.md": "{% load django_mcp %}{% message 'assistant' %} yes {% endmessage %}",
    })  # fmt: skip
    prompt_template("talk.md", server=server, arguments={"word": ""})
    assert texts(client, "talk", word="ab") == [
        ("user", "a"),
        ("assistant", "yes"),
        ("user", "b"),
        ("assistant", "yes"),
    ]


def test_outside_of_prompts_a_message_is_its_words_and_a_resource_cannot_be_read(files: Files) -> None:
    files({
        "page.md": "{% load django_mcp %}{% message 'user' %}words{% endmessage %}",
        "bad.md": "{% load django_mcp %}{% resource 'test://x' %}",
    })  # fmt: skip
    assert render_to_string("page.md") == "words"
    with pytest.raises(Exception, match="only in templates of prompts"):
        render_to_string("bad.md")


# Resources


EMBEDDING = """{% load django_mcp %}Read this:
{% resource "test://{city}/guide" city=city %}
{% message "assistant" %}And {% resource_link "test://rules" %}{% endmessage %}"""


@pytest.fixture
def guides(server: MCPServer) -> None:
    @resource("test://rules", server=server, title="Rules", mime_type="text/markdown")
    def rules() -> str:
        """Of the house."""
        return "Be kind."

    @resource("test://{city}/guide", server=server)
    def guide(ctx: Context, city: str) -> list[ResourceContents]:
        if city == "gone":
            raise Http404
        return [ResourceContents(f"All of {city}."), ResourceContents(b"\x00", "test://map", "image/png")]

    @resource("test://{city}/secret", server=server, permission="auth.view_user")
    def secret(city: str) -> str:
        return "hunter2"

    @resource("test://later", server=server)
    async def later(ctx: Context) -> str:
        return ctx.method


@pytest.mark.usefixtures("guides")
def test_resources_are_embedded_as_the_caller_reads_them(server: MCPServer, client: Client, files: Files) -> None:
    files({"plan.md": EMBEDDING})
    prompt_template("plan.md", server=server, arguments={"city": "Which city."})
    answer = client.request("prompts/get", {"name": "plan", "arguments": {"city": "a+b ü"}})
    messages = [(each["role"], each["content"]) for each in answer.result["messages"]]
    assert [role for role, _ in messages] == ["user", "user", "user", "assistant", "assistant"]
    blocks = [block for _, block in messages]
    assert blocks[0]["text"] == "Read this:"
    assert blocks[1] == {
        "type": "resource",
        "resource": {"uri": "test://a%2Bb%20%C3%BC/guide", "text": "All of a+b ü."},
    }
    assert blocks[2]["resource"] == {"uri": "test://map", "mimeType": "image/png", "blob": "AA=="}
    assert blocks[3]["text"] == "And"
    assert blocks[4] == {
        "type": "resource_link",
        "uri": "test://rules",
        "name": "rules",
        "title": "Rules",
        "description": "Of the house.",
        "mimeType": "text/markdown",
    }


@pytest.mark.usefixtures("guides")
def test_what_the_caller_may_not_read_is_not_found(
    server: MCPServer, client: Client, files: Files, subtests: pytest.Subtests
) -> None:
    both = product(["test://x/secret", "test://nowhere", "no uri", "test://%zz"], ["resource", "resource_link"])
    # A link is not read, so nobody knows that the first of these would lead nowhere.
    gone = [("test://gone", "resource_link"), ("test://gone/guide", "resource")]
    for number, (uri, tag) in enumerate([*both, *gone]):
        with subtests.test(uri=uri, tag=tag):
            files({"plan.md": f"{{% load django_mcp %}}{{% {tag} '{uri}' %}}"})
            prompt_template("plan.md", name=f"{tag}{number}", server=server)
            answer = client.request("prompts/get", {"name": f"{tag}{number}"})
            assert answer.error["message"] == "Resource not found"


@pytest.mark.usefixtures("guides")
def test_an_asynchronous_resource_is_embedded_too(server: MCPServer, client: Client, files: Files) -> None:
    files({"plan.md": "{% load django_mcp %}{% resource 'test://later' %}"})
    prompt_template("plan.md", server=server)
    (message,) = client.request("prompts/get", {"name": "plan"}).result["messages"]
    assert message["content"]["resource"] == {"uri": "test://later", "mimeType": "text/plain", "text": "prompts/get"}


# What stops the start


def test_a_template_that_cannot_be_a_prompt_stops_the_start(
    server: MCPServer, files: Files, subtests: pytest.Subtests
) -> None:
    for source, options, says in [
        (None, {}, r"prompt_template\('plan.md'\): template plan.md does not exist"),
        ("{% if %}", {}, r"prompt_template\('plan.md'\): .*Unexpected end of expression in if tag"),
        ("{% load django_mcp %}{% message user %}{% endmessage %}", {}, r'takes a role: "user" or "assistant"'),
        ("{% load django_mcp %}{% message 'model' %}{% endmessage %}", {}, r'takes a role: "user" or "assistant"'),
        (PLAN, {}, "its comment describes 'city', 'nights', but arguments= does not name them"),
        (
            PLAN,
            {"arguments": {"city": "", "nihgts": ""}},
            "its comment describes 'nights', but arguments= does not name",
        ),
        ("{{ city }}", {"arguments": {"_city": ""}}, "'_city' is not a valid name of a template variable"),
        (
            "{{ city }}",
            {"arguments": {"city": ""}, "completions": {"ciyt": str}},
            "completions for unknown arguments 'ciyt'. Its arguments: 'city'",
        ),
        ("x", {"name": "a plan"}, "invalid name. Use 1 to 64 letters, digits"),
    ]:
        with subtests.test(source=source, options=options, says=says):
            files({} if source is None else {"plan.md": source})
            with pytest.raises(ImproperlyConfigured, match=says):
                prompt_template("plan.md", server=server, **options)


DUMMY = [{"BACKEND": "django.template.backends.dummy.TemplateStrings", "DIRS": []}]


def test_a_template_of_another_engine_names_its_arguments(server: MCPServer, client: Client, tmp_path: Any) -> None:
    (tmp_path / "plan.txt").write_text("To $city & back.")
    with override_settings(TEMPLATES=[{**DUMMY[0], "DIRS": [tmp_path]}]):
        prompt_template("plan.txt", server=server, arguments={"city": "Which city."})
        assert arguments_of(server) == {"city": True}
        assert texts(client, "plan", city="<Oslo>") == [("user", "To <Oslo> & back.")]


def test_several_endpoints_may_have_the_same_template(make_server: Callable[..., MCPServer], files: Files) -> None:
    files({"plan.md": "{{ city }}"})
    servers = [make_server("one"), make_server("two")]
    prompt_template("plan.md", name="plan-it", server=servers, arguments={"city": ""})
    assert [list(each.prompts) for each in servers] == [["plan-it"], ["plan-it"]]


def test_labels_are_not_read_before_they_are_listed(server: MCPServer, files: Files) -> None:
    """A translation fails before all apps are loaded, and would be in the language of the start."""

    def fail() -> str:
        raise RuntimeError("too early")

    files({"plan.md": "Plan.", "trip.html": "A trip."})
    label: Any = lazy(fail, str)()
    labels: dict[str, Any] = {"title": label, "description": label, "server": server}
    prompt_template("plan.md", arguments={"city": label, "day": Annotated[str, Field(description=label)]}, **labels)
    ui("ui://trip", template="trip.html", meta={"note": label}, **labels)
    tool(name="book", **labels)(lambda: "Booked.")
    resource("text://terms", **labels)(lambda: "Terms.")
    assert [*server.prompts, *server.tools] == ["plan", "book"]
