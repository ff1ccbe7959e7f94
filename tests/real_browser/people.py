"""The users of the site, made in its database: ``python -m tests.real_browser.people``."""

import django

CALLERS = ("ann",)
APPROVERS = ("cleo", "dora")


def make() -> None:
    """All of them may look into the admin and approve calls; their names are their passwords."""
    from django.contrib.auth.models import Permission, User

    approve = Permission.objects.get(codename="approve_tool_call")
    for name in (*CALLERS, *APPROVERS):
        User.objects.create_user(name, password=name, is_staff=True).user_permissions.add(approve)


if __name__ == "__main__":
    django.setup()
    make()
