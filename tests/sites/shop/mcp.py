"""What the endpoint of the shop offers."""

import datetime
import time

from asgiref.sync import sync_to_async
from django import forms
from django.urls import reverse
from django.utils import timezone

from django_mcp import Context, MCPServer, ModelResource, form_tool, register, tool, view_tool
from tests.sites.shop.models import Book, Item, Order


@tool
def order(ctx: Context, name: str) -> str:
    """Order an item."""
    item, _ = Item.objects.get_or_create(name=name)
    return f"Order {Order.objects.create(item=item, buyer=ctx.user).pk}"


@tool(read_only=True)
async def count_orders(ctx: Context) -> int:
    """Count the orders of the caller, with the async ORM."""
    return await Order.objects.filter(buyer=ctx.user).acount()


@tool(read_only=True)
async def sleep(seconds: float) -> str:
    """Wait in a thread, as async code that calls a blocking library does."""
    await sync_to_async(time.sleep)(seconds)
    return "slept"


@tool(read_only=True)
def address() -> str:
    """Say where the login page is."""
    return reverse("admin:login")


@tool(read_only=True)
async def address_at_once() -> str:
    """Say where the login page is, in the event loop."""
    return reverse("admin:login")


@tool(policy="ask")
def refund(ctx: Context, name: str) -> str:
    """Refund an item."""
    return f"{ctx.user} was refunded {name}"


@tool(read_only=True, task="optional")
def stocktake(ctx: Context) -> int:
    """Count all items."""
    ctx.report_progress(1, 2, "Counting")
    return Item.objects.count()


@tool
def cancel_order(ctx: Context) -> str:
    """Ask before it acts."""
    return "Cancelled" if ctx.confirm("Really?") else "Kept"


@tool(read_only=True)
def ordered_since(when: datetime.datetime) -> int:
    """Count orders placed since a moment."""
    assert timezone.is_aware(when) is timezone.is_aware(timezone.now()), "as the site's own date-times are"
    return Order.objects.filter(placed__gte=when).count()


@tool(app="shop/receipt.html", read_only=True)
def show_item(name: str) -> dict[str, str]:
    """Show an item, by its name."""
    item = Item.objects.get(name=name)
    return {"name": item.name, "price": str(item.price)}


class StockForm(forms.ModelForm):  # type: ignore[type-arg]
    """Put an item on the shelf."""

    class Meta:
        model = Item
        fields = ("name", "price")


form_tool(StockForm, name="stock_item", permission=None, app=True)


@register(Item)
class ItemResource(ModelResource):
    """An item of the shop."""

    fields = ["name", "price", "added"]
    search_fields = ["name"]
    filterset_fields = ["price__lte", "added__gte"]
    ordering_fields = ["name", "added"]
    view_permission = None
    app = True


@register(Book)
class BookResource(ModelResource):
    """A book of the shop, which is an item too."""

    fields = ["name", "pages"]
    search_fields = ["name"]
    view_permission = None


view_tool("hours", description="When the shop is open.")
view_tool("queue-order", method="POST", arguments={"name": str})

research = MCPServer("research", title="Shop", connector=[Item, Book])
