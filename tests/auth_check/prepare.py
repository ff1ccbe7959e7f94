"""Make the client that the outside tools know, and the demo's tables and data where there are none: ``python -m``."""

import django
from django.core.management import call_command

CLIENT_ID, CLIENT_NAME = "conf-public", "Conformance suite"


def main() -> None:
    """Do it."""
    django.setup()
    from django_mcp.auth.toolkit import get_application_model

    call_command("migrate", verbosity=0)
    call_command("load_travel", verbosity=0)
    get_application_model().objects.create(
        name=CLIENT_NAME,
        client_id=CLIENT_ID,
        client_type="public",
        authorization_grant_type="authorization-code",
        redirect_uris="http://127.0.0.1/callback",
    )


if __name__ == "__main__":
    main()
