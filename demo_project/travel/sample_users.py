"""Sample users of the demo."""

from typing import NamedTuple


class SampleUser(NamedTuple):
    """One login of the demo. The passwords are public: the demo listens on this machine only."""

    username: str
    password: str
    role: str


SAMPLE_USERS: tuple[SampleUser, ...] = (
    SampleUser("admin", "admin", "superuser"),
    SampleUser("anna", "travel-anna", "agent"),
    SampleUser("ben", "travel-ben", "customer"),
    SampleUser("tim", "travel-tim", "trainee"),
)
