"""The API of books as a site of its own, with an endpoint."""
