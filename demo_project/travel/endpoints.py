"""The agency's three endpoints: who may call each, and what for.

``/mcp`` is the default one, for everybody with an account: the ``DJANGO_MCP`` setting speaks of it. Decorators name the
endpoints on which a tool or resource is offered; without ``server=`` it is offered on the default one alone.
"""

from django_mcp import AllowAny, MCPServer, server

staff = MCPServer(
    "staff",
    path="staff/mcp",
    title="Travel agency, staff",
    instructions=(
        "You are connected to a travel agency as one of its staff: you see everybody's bookings and how full the "
        "hotels are, and may cancel a booking for a customer who asks for it. Look up flights, weather and documents "
        "as customers do. Cities are given by name, slug or IATA code; dates as YYYY-MM-DD; prices are in euros. Name "
        "the booking and its customer, and have a yes, before you cancel."
    ),
    scopes=["travel:staff"],
    user_passes_test=lambda user: user.is_staff,
)

open_ = MCPServer(
    "open",
    path="open/mcp",
    title="Travel agency, open to everybody",
    instructions=(
        "You are connected to what a travel agency shows to everybody: flights, weather, activities and documents for "
        "some seventy cities. Cities are given by name, slug or IATA code; dates as YYYY-MM-DD; prices are in euros. "
        "Nothing can be booked here; for that, people connect to the agency's endpoint for customers."
    ),
    authentication=[AllowAny()],
)

SIGNED_IN = [server, staff]
EVERYWHERE = [server, staff, open_]
