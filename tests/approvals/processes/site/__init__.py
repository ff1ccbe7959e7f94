"""A small site whose tools pay."""
