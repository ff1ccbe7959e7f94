"""Prints our pages under unfold: in a process of its own, since the theme replaces the admin's templates."""

import json
import sys

import django


def look(addresses: list[str]) -> dict[str, str]:
    """The page at each address."""
    from django.contrib.auth.models import User
    from django.core.management import call_command
    from django.test import Client

    call_command("migrate", verbosity=0)
    browser = Client()
    browser.force_login(User.objects.create_superuser("owner-of-the-site"))
    found = {}
    for address in addresses:
        answer = browser.get(address)
        assert answer.status_code == 200, (address, answer.status_code, answer.get("location"))
        found[address] = answer.content.decode()
    return found


if __name__ == "__main__":
    django.setup()
    print(json.dumps(look(sys.argv[1:])))  # noqa: T201
