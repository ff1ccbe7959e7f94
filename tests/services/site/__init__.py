"""A site with a service, and an endpoint."""
