"""Existing parts of the agency's site as tools and prompts: a form, a view, an API, a template, the admin."""

from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import Field

from demo_project.travel.api import EventViewSet
from demo_project.travel.customers import Booked
from demo_project.travel.endpoints import EVERYWHERE, office
from demo_project.travel.flights import MAX_HOURS
from demo_project.travel.forms import BookingForm
from demo_project.travel.models import City
from demo_project.travel.results import Departures
from django_mcp import Context, ToolResult, admin_tools, form_tool, prompt_template, view_tool
from django_mcp.contrib.drf import drf_tools


def complete_city(value: str) -> Iterable[str]:
    """Complete the name of a city."""
    return City.objects.starting_with(value).values_list("name", flat=True)


prompt_template(
    "travel/plan-weekend.md",
    title="Plan a weekend",
    arguments={"city": str, "month": str | None, "travellers": str | None},
    completions={"city": complete_city},
)


def hold(ctx: Context, form: BookingForm) -> ToolResult[Booked]:
    """Save the form, as its page does, and return the booking."""
    booked = Booked.of(form.save(ctx.user))
    return ToolResult(booked, text=f"Held: {booked}")


form_tool(
    BookingForm,
    name="hold_rooms",
    title="Hold rooms",
    handle=hold,
    app="travel/held.html",
    scopes=["travel:write"],
    read_only=False,
    destructive=False,
    open_world=False,
)

# create_calendar_event already creates events; the API adds the other operations.
own_events: dict[str, Any] = {"name": "own_event", "write_scopes": ["travel:write"], "open_world": False}
drf_tools(EventViewSet, actions=["list", "retrieve"], **own_events)
drf_tools(EventViewSet, actions=["partial_update"], destructive=True, policy="allow", **own_events)
drf_tools(EventViewSet, actions=["destroy"], **own_events)

view_tool(
    "departures",
    name="departures_board",
    title="Departures board",
    arguments={"hours": Annotated[int, Field(ge=1, le=MAX_HOURS, default=24)]},
    output_schema=Departures,
    open_world=False,
    server=EVERYWHERE,
)

# The back office: each of the staff may do in a conversation what they may do in the admin.
admin_tools(app=True, server=office)
