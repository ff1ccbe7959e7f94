"""Forms of the library's models, for the people who ask for its books."""

from tests.model_resources.conftest import books, people, reader, server, version

__all__ = ["books", "people", "reader", "server", "version"]
