"""Documents of clients, without the network.

Environment variables:

``DOCTOR_DOCUMENTS``
    "away" where no document can be fetched.
"""

import os
from typing import Any

from django_mcp.oauth.cimd import MetadataFetcher, Unreachable


class Fetcher(MetadataFetcher):
    def fetch(self, client_id: str) -> tuple[dict[str, Any], int]:
        if os.environ.get("DOCTOR_DOCUMENTS") == "away":
            raise Unreachable("'claude.ai' has no address")
        return {"client_id": client_id, "client_name": "Client", "redirect_uris": ["http://localhost/cb"]}, 300
