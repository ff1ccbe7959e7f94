"""The API of this process."""

from tests.contrib.ninja.shelf import make_api

api = make_api()
