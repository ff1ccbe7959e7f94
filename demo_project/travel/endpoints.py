"""The agency's four endpoints, with their callers and purpose.

``/mcp`` is the default endpoint, for every user, and is configured by ``DJANGO_MCP``. Decorators name the endpoints
that offer a tool or resource; without ``server=`` only the default endpoint does.
"""

from django_mcp import AllowAny, MCPServer, server

staff = MCPServer(
    "staff",
    path="staff/mcp",
    title="Travel agency, staff",
    instructions=(
        "This is a travel agency's server for its staff. It shows the bookings of all customers and the occupancy of "
        "hotels, and cancels bookings at a customer's request. Flights, weather and documents are available as for "
        "customers. Cities are names, slugs or IATA codes; dates are YYYY-MM-DD; prices are in euros. Before you "
        "cancel, name the booking and its customer, and get the user's confirmation."
    ),
    scopes=["travel:staff"],
    user_passes_test=lambda user: user.is_staff,
)

office = MCPServer(
    "backoffice",
    path="backoffice/mcp",
    title="Travel agency, back office",
    instructions=(
        "This is the admin of a travel agency, for its staff: lists, pages, changes and actions, as the user sees them "
        "there. admin_overview names the models and their tools. Look up a row before you change it, and pass its "
        "version. A change waits until the user has seen and approved it on a page of the admin: give them the "
        "address, and call again with the same arguments."
    ),
    search_tools=0,  # clients show the apps of tools that they list
    scopes=["travel:office"],
    user_passes_test=lambda user: user.is_staff,
)

open_ = MCPServer(
    "open",
    path="open/mcp",
    title="Travel agency, public",
    instructions=(
        "This is a travel agency's public server: flights, weather, activities and documents for about seventy "
        "cities. Cities are names, slugs or IATA codes; dates are YYYY-MM-DD; prices are in euros. It is read-only: "
        "to book, users connect to the agency's endpoint for customers."
    ),
    authentication=[AllowAny()],
)

SIGNED_IN = [server, staff]
EVERYWHERE = [server, staff, open_]
