"""A site of several processes with an admin."""
