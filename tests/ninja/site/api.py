"""The API of this process."""

from tests.ninja.shelf import make_api

api = make_api()
