"""A plain form as a tool: what it takes, what is done with it, and what stays as it was."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django import forms
from django.apps import apps
from django.contrib.auth.models import Group
from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory
from pydantic import BaseModel

from django_mcp import Context, MCPServer, ToolError, ToolResult, form_tool
from tests.clients import MODERN, Client


class EnquiryForm(forms.Form):
    """Ask the agency for an offer."""

    name = forms.CharField(max_length=20, label="Who asks")
    email = forms.EmailField(required=False)
    phone = forms.CharField(required=False, max_length=20)
    travellers = forms.IntegerField(min_value=1, max_value=9, initial=2)
    internal = forms.CharField(disabled=True, initial="web")

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"]
        if name == "nobody":
            raise forms.ValidationError("Nobody may not ask.")
        return name.title()

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        if not data.get("email") and not data.get("phone") and not {"email", "phone"} & self.errors.keys():
            raise forms.ValidationError("Give either an address or a telephone number.")
        return data

    def save(self) -> str:
        return f"Sent for {self.cleaned_data['name']} by {self.cleaned_data['internal']}."


GOOD = {"name": "ann", "phone": "12"}


def by_view(server: MCPServer) -> Client:
    return Client(server, MODERN, "view")


def test_a_form_is_a_tool_in_one_line(server: MCPServer, client: Client) -> None:
    form_tool(EnquiryForm, server=server)
    (tool,) = client.list("tools/list")
    assert tool["name"] == "enquiry"
    assert tool["description"] == "Ask the agency for an offer."
    schema = tool["inputSchema"]
    assert set(schema["properties"]) == {"name", "email", "phone", "travellers"}
    assert schema["required"] == ["name"]
    assert schema["properties"]["name"]["title"] == "Who asks"
    assert client.call("enquiry", **GOOD).text == "Sent for Ann by web."


def test_all_that_is_wrong_is_told_in_one_answer(server: MCPServer, client: Client) -> None:
    form_tool(EnquiryForm, server=server)
    answer = client.call("enquiry", nam="ann", email={"at": "home"}, travellers="twelve", phone="1" * 30)
    assert answer.result["isError"] is True
    assert answer.text.split(". ")[:2] == [
        "Unknown argument 'nam'",
        "Did you mean 'name'? It takes 'name', 'email', 'phone', 'travellers'",
    ]
    for sentence in (
        "Missing argument 'name'.",
        "Argument 'email' must be a string, not an object.",
        "Argument 'phone': Ensure this value has at most 20 characters (it has 30).",
        "Argument 'travellers': Enter a whole number.",
    ):
        assert sentence in answer.text


def test_an_unknown_argument_keeps_a_form_from_being_handled(server: MCPServer, open_database: None) -> None:
    handled: list[Any] = []
    form_tool(EnquiryForm, handle=lambda _, form: handled.append(form), server=server)
    assert by_view(server).call("enquiry", **GOOD, internal="x").text.startswith("Unknown argument 'internal'.")
    assert handled == []


def test_errors_of_a_field_s_own_method_and_of_the_whole_form_are_told(server: MCPServer, open_database: None) -> None:
    form_tool(EnquiryForm, server=server)
    client = by_view(server)
    assert client.call("enquiry", name="nobody", phone="1").text == "Argument 'name': Nobody may not ask."
    assert client.call("enquiry", name="ann").text == "Give either an address or a telephone number."


def test_a_value_of_a_wrong_kind_is_no_value_left_out(server: MCPServer, open_database: None) -> None:
    form_tool(EnquiryForm, server=server)
    text = by_view(server).call("enquiry", name="ann", email=[]).text
    assert text == "Argument 'email' must be a string, not an array."


class TestTheOriginal:
    """What people have is the same before and after."""

    @staticmethod
    def page(request: HttpRequest) -> HttpResponse:
        form = EnquiryForm(request.POST or None)
        done = form.save() if form.is_valid() else ""
        return HttpResponse(f"{done}{form.as_p()}{form.errors.as_json()}")

    SENT = ({}, GOOD, {"name": "nobody", "travellers": "x"}, {**GOOD, "travellers": "3", "internal": "x"})

    def answers(self) -> list[Any]:
        made = RequestFactory()
        pages = [self.page(made.get("/")), *(self.page(made.post("/", data)) for data in self.SENT)]
        return [page.content for page in pages]

    def test_page_errors_and_values_stay_as_they_are(self, server: MCPServer, open_database: None) -> None:
        before = self.answers()
        fields = dict(EnquiryForm.base_fields)
        assert form_tool(EnquiryForm, server=server) is EnquiryForm
        client = by_view(server)
        client.call("enquiry", **GOOD)
        client.call("enquiry", name={}, email=1)
        assert self.answers() == before
        assert EnquiryForm.base_fields == fields
        assert all(
            type(each).clean is type(field).clean
            for each, field in zip(EnquiryForm().fields.values(), fields.values(), strict=True)
        )

    def test_the_decorator_gives_the_class_back(self, server: MCPServer) -> None:
        class Plain(forms.Form):
            word = forms.CharField()

            def save(self) -> None:
                pass

        assert form_tool(name="one", server=server)(Plain) is Plain
        assert form_tool(Plain, name="two", server=server) is Plain

    def test_a_form_says_the_same_to_a_model_and_to_a_person(self, server: MCPServer, open_database: None) -> None:
        form_tool(EnquiryForm, server=server)
        form = EnquiryForm({"name": "nobody", "travellers": "12", "email": "x"})
        said = {f"Argument {name!r}: {error}" for name, errors in form.errors.items() for error in errors}
        text = by_view(server).call("enquiry", name="nobody", travellers=12, email="x").text
        assert all(sentence in text for sentence in said)
        assert len(said) == 3


def test_a_class_can_be_decorated_bare(make_server: Callable[..., MCPServer], open_database: None) -> None:
    from django_mcp import server as default

    @form_tool
    class Bare(forms.Form):
        def save(self) -> str:
            return "done"

    assert "bare" in default.tools


class TestHandling:
    def test_is_by_a_function_that_gets_the_context_and_the_form(self, server: MCPServer, client: Client) -> None:
        def greet(ctx: Context, form: forms.Form) -> str:
            return f"{form.cleaned_data['name']} at {ctx.server.name}"

        form_tool(EnquiryForm, handle=greet, server=server)
        assert client.call("enquiry", **GOOD).text == "Ann at test"

    def test_is_by_a_method_of_the_form(self, server: MCPServer, open_database: None) -> None:
        class Letter(forms.Form):
            text = forms.CharField()

            def send(self) -> str:
                return f"sent {self.cleaned_data['text']}"

        form_tool(Letter, handle="send", server=server)
        assert by_view(server).call("letter", text="a").text == "sent a"

    def test_has_an_output_schema_where_the_function_says_what_it_gives(
        self, server: MCPServer, open_database: None
    ) -> None:
        class Offer(BaseModel):
            price: int

        def handle(ctx: Context, form: forms.Form) -> ToolResult[Offer]:
            return ToolResult(Offer(price=form.cleaned_data["travellers"] * 10), text="An offer.")

        form_tool(EnquiryForm, handle=handle, server=server)
        client = by_view(server)
        (tool,) = client.list("tools/list")
        assert tool["outputSchema"]["properties"] == {"price": {"type": "integer"}}
        assert client.call("enquiry", **GOOD).result["structuredContent"] == {"price": 20}

    def test_gives_its_result_to_a_function_that_shows_it(self, server: MCPServer, open_database: None) -> None:
        def show(ctx: Context, done: str) -> dict[str, int]:
            return {"length": len(done)}

        form_tool(EnquiryForm, result=show, server=server)
        assert by_view(server).call("enquiry", **GOOD).result["structuredContent"] == {"length": 20}

    def test_may_refuse(self, server: MCPServer, open_database: None) -> None:
        def refuse(ctx: Context, form: forms.Form) -> None:
            raise ToolError("Closed on Sundays.")

        form_tool(EnquiryForm, handle=refuse, server=server)
        answer = by_view(server).call("enquiry", **GOOD)
        assert (answer.result["isError"], answer.text) == (True, "Closed on Sundays.")


class TestFormsThatWantArguments:
    class Personal(forms.Form):
        word = forms.CharField()

        def __init__(self, *args: Any, request: HttpRequest, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.request = request
            self.fields["word"].required = False
            if request.path != "/test/mcp":
                del self.fields["word"]

        def save(self) -> str:
            return f"{self.cleaned_data['word'] or 'nothing'} on {self.request.path}"

    def test_get_them_from_the_context(self, server: MCPServer, client: Client) -> None:
        form_tool(self.Personal, form_kwargs=lambda ctx: {"request": ctx.request}, server=server)
        assert client.call("personal", word="a").text == "a on /test/mcp"
        assert client.call("personal").text == "nothing on /test/mcp"

    def test_must_be_given_them(self, server: MCPServer) -> None:
        with pytest.raises(ImproperlyConfigured, match=r"cannot be created without arguments .* form_kwargs"):
            form_tool(self.Personal, server=server)

    def test_a_system_check_says_so_where_it_is_declared_at_the_start(
        self, server: MCPServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(apps, "ready", False)
        form_tool(self.Personal, server=server)
        monkeypatch.setattr(apps, "ready", True)
        (found,) = (each.msg for each in run_checks(tags=["django_mcp"]) if each.id == "django_mcp.E029")
        assert "cannot be created without arguments" in found

    def test_may_have_less_fields_for_some(self, server: MCPServer, open_database: None) -> None:
        elsewhere = RequestFactory().get("/elsewhere")
        form_tool(self.Personal, form_kwargs=lambda _: {"request": elsewhere}, server=server)
        assert by_view(server).call("personal", word="a").text == "Unknown argument 'word'. It takes no arguments."

    def test_may_have_a_prefix_and_other_initial_values(self, server: MCPServer, open_database: None) -> None:
        form_tool(
            EnquiryForm,
            form_kwargs=lambda _: {"prefix": "p", "initial": {"phone": "7"}},
            handle=lambda _, form: str(sorted(form.cleaned_data.items())),
            server=server,
        )
        text = by_view(server).call("enquiry", name="ann").text
        assert "('phone', '7')" in text
        assert "('travellers', 2)" in text

    def test_may_look_what_was_chosen_before_they_make_their_fields(
        self, server: MCPServer, open_database: None
    ) -> None:
        class Places(forms.Form):
            country = forms.ChoiceField(choices=[("es", "Spain"), ("pt", "Portugal")])
            city = forms.ChoiceField(choices=[])

            def __init__(self, *args: Any, **kwargs: Any) -> None:
                super().__init__(*args, **kwargs)
                cities = {"es": "Barcelona", "pt": "Lisbon"}
                if "country" in self.data:
                    city = cities[self.data["country"]]
                    self.fields["city"].choices = [(city, city)]

            def save(self) -> str:
                city: str = self.cleaned_data["city"]
                return city

        form_tool(Places, server=server)
        client = by_view(server)
        assert client.call("places", country="pt", city="Lisbon").text == "Lisbon"
        assert "Choose one of: Lisbon." in client.call("places", country="pt", city="Barcelona").text


def test_a_form_with_a_prefix_works(server: MCPServer, open_database: None) -> None:
    class Prefixed(EnquiryForm):
        prefix = "p"

    form_tool(Prefixed, name="enquiry", server=server)
    assert by_view(server).call("enquiry", **GOOD).text == "Sent for Ann by web."


def test_errors_written_as_html_are_told_as_text(server: MCPServer, open_database: None) -> None:
    from django.utils.html import format_html

    class Strict(forms.Form):
        word = forms.CharField()

        def clean(self) -> None:
            self.add_error("word", format_html("See <a href='{}'>the &amp; rules</a>", "/rules"))

        def save(self) -> None:
            pass

    form_tool(Strict, server=server)
    assert by_view(server).call("strict", word="<b>").text == "Argument 'word': See the & rules."


def test_a_form_is_hidden_from_whoever_may_not_use_it(server: MCPServer, open_database: None) -> None:
    form_tool(EnquiryForm, permission="library.add_book", server=server)
    client = by_view(server)
    assert client.list("tools/list") == []
    assert client.call("enquiry", **GOOD).code == -32602


class NoSave(forms.Form):
    word = forms.CharField()


async def later(ctx: Context, form: forms.Form) -> None:
    pass


def test_what_cannot_work_is_said_at_the_start(server: MCPServer, subtests: pytest.Subtests) -> None:
    for made, options, words in [
        (NoSave, {}, "has no method 'save', so nothing would process"),
        (NoSave, {"handle": "send"}, "has no method 'send'"),
        (NoSave, {"handle": later}, "handle must be a synchronous function"),
        (object, {}, "expected a form class"),
        (NoSave, {"handle": print, "lookup": "pk"}, "require a ModelForm"),
        (NoSave, {"handle": print, "instance": print}, "require a ModelForm"),
        (NoSave, {"handle": print, "queryset": print}, "add lookup='pk'"),
    ]:
        with subtests.test(made=made, options=options, words=words), pytest.raises(ImproperlyConfigured, match=words):
            form_tool(made, server=server, **options)


TWENTY: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({}, "Missing argument 'name'."),
    "null": ({**GOOD, "name": None}, "Argument 'name': This field is required."),
    "empty": ({**GOOD, "name": "  "}, "Argument 'name': This field is required."),
    "object": ({**GOOD, "name": {"first": "ann"}}, "Argument 'name' must be a string, not an object."),
    "list": ({**GOOD, "name": ["ann"]}, "Argument 'name' must be a string, not an array."),
    "number": ({**GOOD, "phone": 12}, "Argument 'phone' must be a string, not a number."),
    "true": ({**GOOD, "travellers": True}, "Argument 'travellers' must be a number, not true or false."),
    "words": ({**GOOD, "travellers": "two"}, "Argument 'travellers': Enter a whole number."),
    "half": ({**GOOD, "travellers": 1.5}, "Argument 'travellers': Enter a whole number."),
    "many": ({**GOOD, "travellers": 10}, "Argument 'travellers': Ensure this value is less than or equal to 9."),
    "list of numbers": ({**GOOD, "travellers": [2]}, "Argument 'travellers' must be a number, not an array."),
    "extra": ({**GOOD, "colour": "red"}, "Unknown argument 'colour'."),
    "misspelt": ({**GOOD, "e-mail": "a@example.com"}, "Did you mean 'email'?"),
    "nul": ({**GOOD, "name": "a\0"}, "Argument 'name' must not contain NUL characters."),
}


def test_a_careless_call_is_told_what_to_repair(
    server: MCPServer, open_database: None, subtests: pytest.Subtests
) -> None:
    form_tool(EnquiryForm, server=server)
    for case, (given, words) in TWENTY.items():
        with subtests.test(case):
            answer = by_view(server).call("enquiry", **given)
            assert answer.result["isError"] is True
            assert words in answer.text


class SeatForm(forms.Form):
    """Take a seat."""

    room = forms.ChoiceField()
    hall = forms.ChoiceField(choices=[("east", "East wing"), ("west", "West wing")], required=False)
    row = forms.IntegerField()

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        rooms = list(Group.objects.filter(name__startswith="room").order_by("name").values_list("name", flat=True))
        self.fields["room"].choices = [(each, each) for each in rooms]  # type: ignore[attr-defined]
        self.fields["row"].initial = len(rooms)

    def save(self) -> str:
        return f"Row {self.cleaned_data['row']} of {self.cleaned_data['room']}."


@pytest.fixture
def rooms(open_database: None) -> Iterator[None]:
    Group.objects.create(name="room of the first listing")
    yield
    Group.objects.filter(name__startswith="room").delete()


def test_choices_and_initial_values_that_are_rows_are_known_to_each_call_and_to_no_list(
    server: MCPServer, client: Client, rooms: None
) -> None:
    form_tool(SeatForm, server=server)
    (tool,) = client.list("tools/list")
    fields = tool["inputSchema"]["properties"]
    assert fields["hall"]["anyOf"][0]["enum"] == ["east", "west"]
    assert fields["room"]["type"] == "string"
    assert "enum" not in fields["room"]
    assert (
        fields["room"]["description"]
        == "The choices are known only at call time. An invalid value returns an error that lists them."
    )
    assert "default" not in fields["row"]
    assert "room of" not in str(tool)
    Group.objects.create(name="room that is new")
    assert client.call("seat", room="room that is new").text == "Row 2 of room that is new."
    Group.objects.filter(name__contains="first").delete()
    answer = client.call("seat", room="room of the first listing")
    assert answer.result["isError"] is True
    assert "Choose one of: room that is new." in answer.text
    assert client.list("tools/list") == [tool]
