"""What the agency's site had before it had an MCP endpoint, published as it is: a form, a view, an API, a template."""

from collections.abc import Iterable
from typing import Annotated

from pydantic import Field

from demo_project.travel.api import EventViewSet
from demo_project.travel.customers import Booked
from demo_project.travel.endpoints import EVERYWHERE
from demo_project.travel.flights import MAX_HOURS
from demo_project.travel.forms import BookingForm
from demo_project.travel.models import City
from demo_project.travel.results import Departures
from django_mcp import Context, ToolResult, form_tool, prompt_template, view_tool
from django_mcp.contrib.drf import drf_tools


def complete_city(value: str) -> Iterable[str]:
    """Names of cities that somebody may be typing."""
    return City.objects.starting_with(value).values_list("name", flat=True)


prompt_template(
    "travel/plan-weekend.md",
    title="Plan a weekend",
    arguments={"city": str, "month": str | None, "travellers": str | None},
    completions={"city": complete_city},
)


def hold(ctx: Context, form: BookingForm) -> ToolResult[Booked]:
    """What the page does with the form, and what a model is told of it."""
    booked = Booked.of(form.save(ctx.user))
    return ToolResult(booked, text=f"Held: {booked}")


form_tool(BookingForm, name="hold_rooms", title="Hold rooms", handle=hold, scopes=["travel:write"], read_only=False)

# Making events is a tool already, with words of its own; the API adds looking after them.
drf_tools(EventViewSet, name="own_event", exclude=["create", "update"], write_scopes=["travel:write"])

view_tool(
    "departures",
    name="departures_board",
    title="Departures board",
    arguments={"hours": Annotated[int, Field(ge=1, le=MAX_HOURS, default=24)]},
    output_schema=Departures,
    open_world=False,
    server=EVERYWHERE,
)
