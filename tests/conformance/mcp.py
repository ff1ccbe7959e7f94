"""What the conformance suite expects to find on a server, module by module.

The order of the imports is that of the lists: the suite calls the first tool and reads the first resource.
"""

from tests.conformance import tools  # noqa: F401, I001 - before the others, see above
from tests.conformance import conversations, input_required, prompts, resources  # noqa: F401
