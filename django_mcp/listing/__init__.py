"""What a site needs to be listed in directories of connectors: their rules, and public documents about endpoints."""
