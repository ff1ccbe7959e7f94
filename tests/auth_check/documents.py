"""Client ID metadata documents from a server of the tests' own; but for its address, as from any other."""

import os
import ssl
from collections.abc import Sequence

from django_mcp.oauth.cimd import MetadataFetcher
from tests.auth_check import DOCUMENTS_HOST


class LocalFetcher(MetadataFetcher):
    """Finds the host on this machine, and trusts the authority of this run only."""

    def addresses(self, host: str, port: int) -> Sequence[str]:
        return ["127.0.0.1"] if host == DOCUMENTS_HOST else super().addresses(host, port)

    def context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=os.environ["AUTH_CHECK_AUTHORITY"])
