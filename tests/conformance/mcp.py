"""What the conformance suite expects to find on a server, module by module.

The order of the imports is that of the lists: the suite calls the first tool and reads the first resource.
"""

from django_mcp import MCPServer, server  # noqa: I001 - see above
from tests.conformance import tools  # noqa: F401 - before the others, see above
from tests.conformance import conversations, input_required, prompts, resources, tasks  # noqa: F401

searched = MCPServer("searched", source=server, search_tools=5)
"""The same with its tools searched; the suite does not look here, tests with real clients do."""
