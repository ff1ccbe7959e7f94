"""A small site with an admin, and a tool of which calls have to be approved."""
