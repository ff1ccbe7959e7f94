"""What the site had before: a service that knows nothing of tools."""

from collections.abc import Iterator

from django.contrib.auth.models import Group


class Clubs:
    """Clubs, which are groups.

    Args:
        most: how many there may be.
    """

    def __init__(self, most: int) -> None:
        self.most = most

    def found(self, name: str) -> Group:
        """Found a club."""
        if Group.objects.count() >= self.most:
            raise ValueError("full")
        return Group.objects.create(name=name)

    def rename(self, club: Group, name: str) -> str:
        """Give a club another name.

        Args:
            club: Which one.
            name: The new name.
        """
        club.name = name
        club.save()
        return f"It is {name} now."

    @classmethod
    def called(cls, name: str) -> list[Group]:
        """Clubs whose name has a word in it."""
        return list(Group.objects.filter(name__contains=name).order_by("name"))

    def roll(self) -> Iterator[str]:
        """Call all clubs by their names."""
        for club in Group.objects.order_by("name"):
            yield club.name

    async def motto(self, words: str = "Semper") -> str:
        """The words below the arms."""
        return f"{words}!"

    def stamp(self, letter: bytes) -> bytes:
        """Stamp a letter."""
        return letter + b"\0"
