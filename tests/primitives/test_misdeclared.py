"""What is declared wrongly is told when it is declared: whose it is, what is wrong, and what would be right."""

from collections.abc import Callable
from typing import Annotated, Any

import pytest
from django import forms
from django.core.exceptions import ImproperlyConfigured

from django_mcp import (
    MCPServer,
    ModelArgument,
    ModelResource,
    Upload,
    form_tool,
    prompt,
    register,
    resource,
    tool,
    view_tool,
)
from tests.model_resources.library.models import Book

HERE = __name__


class Contact(forms.Form):
    """Get in touch."""

    name = forms.CharField()


def add(a: int) -> int:
    """Add."""
    return a


def late(ctx, name: str) -> str:  # type: ignore[no-untyped-def] # that is what it is about
    """Be late."""
    return name


def later(name: str, context=None) -> str:  # type: ignore[no-untyped-def]
    """Be later."""
    return name


def sent(photo: Annotated[str, Upload(max_bytes=5)]) -> None: ...
def sent_many(photos: Annotated[list[bytes], Upload(max_bytes=5)]) -> None: ...


class Books(ModelResource):
    fields = ("title",)


ADD = f"tool 'add' ({HERE}.add)"
IS_NO_SERVER = "server must be an MCPServer, not 'desk': give the object that MCPServer(…) made."
TAKES_A_FUNCTION = "ModelArgument takes a function of the context, like ModelArgument(lambda ctx: Order.objects.all())"
Declare = Callable[[MCPServer], Any]
WRONG: dict[str, tuple[Declare, str]] = {
    "an option of a tool": (
        lambda server: tool(readonly=True, server=server)(add),  # type: ignore[call-overload]
        f"{ADD}: unknown option 'readonly'. Did you mean 'read_only'?",
    ),
    "an option of a prompt": (
        lambda server: prompt(scope=["a"], server=server)(add),  # type: ignore[call-overload]
        f"prompt 'add' ({HERE}.add): unknown option 'scope'. Did you mean 'scopes'?",
    ),
    "an option of a form": (
        lambda server: form_tool(Contact, handle=add, permision="a.b", server=server),
        "form_tool(Contact): unknown option 'permision'. Did you mean 'permission'?",
    ),
    "an option that only forms have": (
        lambda server: form_tool(Contact, handle=add, form_kwarg=dict, server=server),
        "form_tool(Contact): unknown option 'form_kwarg'. Did you mean 'form_kwargs'?",
    ),
    "an option of a view": (
        lambda server: view_tool("bookings:detail", args={"day": str}, server=server),
        "view_tool(bookings_detail): unknown option 'args'. Did you mean 'arguments'?",
    ),
    "visible": (
        lambda server: tool(visible=True, server=server)(add),  # type: ignore[call-overload]
        f"{ADD}: visible must be a function, like lambda ctx: ctx.user.is_staff, not True.",
    ),
    "a rate that is a number": (
        lambda server: tool(rate_limit=5, server=server)(add),  # type: ignore[call-overload]
        f"{ADD}: rate_limit 5 is not a rate. Use a number and s, m, h or d, such as '60/m' for 60 calls per minute.",
    ),
    "a rate in words": (
        lambda server: tool(rate_limit="5/minute", server=server)(add),
        (
            f"{ADD}: rate_limit '5/minute' is not a rate. Use a number and s, m, h or d, such as '60/m' for 60 calls "
            "per minute."
        ),
    ),
    "a rate of an endpoint": (
        lambda _: MCPServer("x", rate_limit="often"),
        (
            "MCPServer 'x': rate_limit 'often' is not a rate. Use a number and s, m, h or d, such as '60/m' for 60 "
            "calls per minute."
        ),
    ),
    "a word for how many tools": (
        lambda _: MCPServer("x", search_tools="yes"),  # type: ignore[arg-type]
        "MCPServer 'x': search_tools must be a number of tools, True or False, not 'yes'.",
    ),
    "the name of a source": (
        lambda _: MCPServer("x", source="default"),  # type: ignore[arg-type]
        "MCPServer 'x': source must be an MCPServer object, not 'default'.",
    ),
    "the name of an endpoint for a tool": (lambda _: tool(server="desk")(add), IS_NO_SERVER),  # type: ignore[call-overload]
    "names of endpoints": (lambda _: tool(server=["desk"])(add), IS_NO_SERVER),  # type: ignore[call-overload]
    "the name of an endpoint for a resource": (
        lambda _: resource("test://a", server="desk")(lambda: "a"),  # type: ignore[arg-type]
        IS_NO_SERVER,
    ),
    "the name of an endpoint for a model": (lambda _: register(Book, Books, server="desk"), IS_NO_SERVER),  # type: ignore[call-overload]
    "the name of an endpoint for a view": (lambda _: view_tool("a", server="desk"), IS_NO_SERVER),  # type: ignore[arg-type]
    "the name of an endpoint for a form": (lambda _: form_tool(Contact, handle=add, server="desk"), IS_NO_SERVER),  # type: ignore[call-overload]
    "a list of a view's arguments": (
        lambda server: view_tool("bookings", arguments=["day"], server=server),  # type: ignore[arg-type]
        ("view_tool(bookings): arguments must map names to annotations, such as {'day': str}, not ['day']."),
    ),
    "a class": (
        lambda server: tool(server=server)(Contact),
        "Contact is a class. Use a function, or a method of an object: Contact(…).some_method.",
    ),
    "a form in place of its class": (
        lambda server: form_tool(Contact(), server=server),  # type: ignore[call-overload]
        "form_tool(a Contact): expected a form class, or a class made by formset_factory.",
    ),
    "rows in place of a function": (
        lambda _: ModelArgument(Book.objects.all()),  # type: ignore[arg-type] # which asks no database
        f"{TAKES_A_FUNCTION}, not a QuerySet.",
    ),
    "a model in place of a function": (
        lambda _: ModelArgument(Book),  # type: ignore[arg-type]
        f"{TAKES_A_FUNCTION}, not a class.",
    ),
    "the context without its annotation": (
        lambda server: tool(server=server)(late),
        "late: the context parameter 'ctx' has no annotation. Write ctx: Context.",
    ),
    "the context of a resource": (
        lambda server: resource("test://{name}", server=server)(late),
        "late: the context parameter 'ctx' has no annotation. Write ctx: Context.",
    ),
    "the context of a prompt": (
        lambda server: prompt(server=server)(later),
        "later: the context parameter 'context' has no annotation. Write context: Context.",
    ),
    "bytes that are a text": (
        lambda server: tool(server=server)(sent),
        (
            f"tool 'sent' ({HERE}.sent): the type of a parameter has no JSON Schema. Upload must annotate bytes: "
            "write Annotated[bytes, Upload(…)], not Annotated[str, Upload(…)]."
        ),
    ),
    "many bytes with one limit": (
        lambda server: tool(server=server)(sent_many),
        (
            f"tool 'sent_many' ({HERE}.sent_many): the type of a parameter has no JSON Schema. Upload must annotate "
            "bytes: write Annotated[bytes, Upload(…)], not Annotated[list, Upload(…)]."
        ),
    ),
}


def test_what_is_declared_wrongly_is_told_at_once(server: MCPServer, subtests: pytest.Subtests) -> None:
    for kind, (declare, words) in WRONG.items():
        with subtests.test(kind):
            with pytest.raises(ImproperlyConfigured) as caught:
                declare(server)
            assert str(caught.value) == words


def test_an_option_that_resembles_none_is_answered_with_all(server: MCPServer) -> None:
    with pytest.raises(
        ImproperlyConfigured, match=r"unknown option 'xyz'\. Valid options: always_listed, app, atomic, "
    ):
        tool(xyz=1, server=server)(add)  # type: ignore[call-overload]
