"""The tutorial as a site of its own, with an endpoint."""
