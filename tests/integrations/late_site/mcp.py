"""Each kind of declaration, of forms, models and serializers that ask the database when they are made."""

from typing import Any

from django import forms
from django.db.models import Max
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy
from ninja import ModelSchema, NinjaAPI
from rest_framework import serializers, viewsets

from django_mcp import (
    Context,
    MCPServer,
    ModelResource,
    form_tool,
    prompt,
    prompt_template,
    register,
    resource,
    server,
    skill,
    tool,
    view_tool,
)
from django_mcp.contrib.drf import drf_tools
from django_mcp.contrib.ninja import ninja_tools
from tests.integrations.late_site.models import Order, Page, Room, Visit


def rooms() -> list[tuple[str, str]]:
    """Ask the database."""
    return [(room.name, room.name) for room in Room.objects.order_by("name")]


class BookingForm(forms.Form):
    """Book a room."""

    room = forms.ChoiceField(label=gettext_lazy("Yes"))
    host = forms.ChoiceField(choices=rooms)

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.fields["room"].choices = rooms()  # type: ignore[attr-defined]

    def save(self) -> str:
        """Say which."""
        return f"Booked {self.cleaned_data['room']}."


class RoomForm(forms.ModelForm):
    """Add a room like another one."""

    class Meta:
        """Two fields."""

        model = Room
        fields = ("name", "seats")

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.fields["seats"].initial = max(seats for (seats,) in Room.objects.values_list("seats"))


class RoomSerializer(serializers.ModelSerializer[Room]):
    """A room, and one that is like it."""

    class Meta:
        """All of it."""

        model = Room
        fields = ("id", "name", "seats")

    def get_fields(self) -> dict[str, Any]:
        """Offer the rooms there are."""
        fields = super().get_fields()
        fields["like"] = serializers.ChoiceField(choices=rooms(), help_text=gettext_lazy("Yes"), write_only=True)
        return fields


class RoomViewSet(viewsets.ModelViewSet[Room]):
    """The rooms."""

    queryset = Room.objects.order_by("name")
    serializer_class = RoomSerializer


form_tool(BookingForm)
form_tool(RoomForm, name="new_room")
form_tool(forms.formset_factory(BookingForm, max_num=3, validate_max=True), name="book_rooms", handle=lambda *_: "")
drf_tools(RoomViewSet)


# Rows of models


class RoomResource(ModelResource):
    """The rooms."""

    name, plural = "hall", "halls"
    fields = ("name", "seats")
    search_fields = ("name",)
    actions = ("create", "update", "delete")
    writable_fields = ("name", "seats")
    connector = True


class OrderResource(ModelResource):
    """The orders."""

    fields = ("number", "note", "seats", "room", "others")
    annotations = {"largest": Max("others__seats")}
    lookup_field = "number"
    search_fields = ("note",)
    filterset_fields = ("room", "seats", "seats__gte", "others")
    ordering = ("-number",)
    aggregates = {"seats": ["sum"]}
    group_by_fields = ("room",)
    actions = ("create", "update", "delete")
    writable_fields = ("note", "seats", "room", "others")
    app = True


class VisitResource(ModelResource):
    """The visits."""

    fields = ("room", "before")
    filterset_fields = ("room", "before")
    actions = ("create", "update", "delete")
    writable_fields = ("room", "before")


class PageForm(forms.ModelForm):
    """A page, whose form asks the database when it is made."""

    class Meta:
        """Both fields."""

        model = Page
        fields = ("title", "order")

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.fields["title"].help_text = f"One of {Room.objects.count()}."


class PageResource(ModelResource):
    """The pages."""

    fields = ("title", "order")
    actions = ("create", "update", "delete")
    form = PageForm


register(Room, RoomResource)
register(Order, OrderResource)
register(Page, PageResource)
register(Visit, VisitResource)


# Forms of models


class OrderForm(forms.ModelForm):
    """Change an order."""

    class Meta:
        """What the model resource has."""

        model = Order
        fields = ("number", "note", "seats", "room", "others")


form_tool(OrderForm, name="add_order", app=True)
form_tool(OrderForm, name="change_order", lookup="pk")
form_tool(OrderForm, name="change_first_order", instance=lambda _: Order.objects.first(), form_kwargs=lambda _: {})
form_tool(PageForm, name="change_page", lookup="pk", queryset=lambda _: Page.objects.all())
form_tool(forms.modelformset_factory(Order, OrderForm), name="add_orders")
form_tool(
    forms.inlineformset_factory(Order, Page, PageForm, extra=1),
    name="add_pages",
    instance=lambda _: Order.objects.first(),
)


# Views and other APIs


class AskingViewSet(viewsets.ModelViewSet[Order]):
    """The orders, of a view that asks the database for whatever it needs."""

    def get_queryset(self) -> Any:
        """Ask the database."""
        return Order.objects.filter(number__lte=Order.objects.count())

    def get_serializer_class(self) -> Any:
        """Ask the database."""
        rooms()
        return OrderSerializer

    def get_serializer_context(self) -> dict[str, Any]:
        """Ask the database."""
        return {**super().get_serializer_context(), "rooms": rooms()}


class OrderSerializer(serializers.ModelSerializer[Order]):
    """An order, whose serializer asks the database."""

    class Meta:
        """All of it."""

        model = Order
        fields = ("number", "note", "seats", "room")

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        rooms()


drf_tools(AskingViewSet, name="api_order", mounted=False)
drf_tools(
    AskingViewSet,
    name="told_order",
    actions=["list", "create"],
    request={"create": OrderSerializer},
    responses={"list": OrderSerializer, "create": OrderSerializer},
    mounted=False,
)

api = NinjaAPI()


class OrderIn(ModelSchema):
    """An order to make."""

    class Meta:
        """What callers give."""

        model = Order
        fields = ("number", "note", "room")


@api.post("/orders", response=OrderIn)
def ninja_order(request: HttpRequest, order: OrderIn) -> Any:
    """Make an order."""
    return Order.objects.create(**order.dict())


ninja_tools(api, policy="allow")


def rooms_page(request: HttpRequest) -> HttpResponse:
    """Show the rooms."""
    return HttpResponse(", ".join(name for name, _ in rooms()))


view_tool("rooms-page")


# Functions


def complete_room(value: str) -> list[str]:
    """Ask the database."""
    return [name for name, _ in rooms()]


@resource("late://rooms")
def all_rooms() -> str:
    """The rooms."""
    return ", ".join(name for name, _ in rooms())


@resource("late://rooms/{name}", completions={"name": complete_room})
def one_room(name: str) -> str:
    """A room."""
    return Room.objects.get(name=name).name


@prompt(completions={"room": complete_room})
def about_room(room: str) -> str:
    """Ask about a room."""
    return f"How is {Room.objects.get(name=room).name}?"


@tool(task="optional", app="late_site/rooms.html", read_only=True)
def count_rooms(ctx: Context) -> dict[str, int]:
    """Count the rooms."""
    return {"rooms": Room.objects.count()}


@tool
def move(ctx: Context, order: Order, room: Room) -> Order:
    """Move an order into a room that the person confirms."""
    answer = ctx.elicit("Which one?", BookingForm)
    order.room = Room.objects.get(name=answer.data.room)
    return order


prompt_template("late_site/ask.md")

plain = MCPServer(name="plain", path="plain", source=server, include_tags=["plain"], connector=[Room])
skill("book-a-room", permission="late_site.add_order")
