"""A site with OAuth and API keys, one tool and one resource."""
