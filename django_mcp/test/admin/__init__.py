"""Judge of ``admin_tools``: the admin in a browser and the endpoint, compared on one database as one user.

It needs to know nothing of the site. Any site can run it on its own admin.
"""

from django_mcp.test.admin.browser import Browser as Browser
from django_mcp.test.admin.comparison import effects as effects
from django_mcp.test.admin.comparison import walk as walk
from django_mcp.test.admin.endpoint import Endpoint as Endpoint
from django_mcp.test.admin.pages import Difference as Difference
from django_mcp.test.admin.pages import Differences as Differences
from django_mcp.test.admin.pages import Field as Field
from django_mcp.test.admin.pages import Link as Link
from django_mcp.test.admin.pages import Page as Page
from django_mcp.test.admin.pages import Side as Side
from django_mcp.test.admin.pages import State as State
from django_mcp.test.admin.pages import Value as Value
