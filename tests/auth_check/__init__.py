"""Outside tools and real clients against the demo's authorization server, through its real pages."""

DOCUMENTS_HOST = "client.example"
"""The host of the tests' client ID metadata documents, which no resolver knows."""
