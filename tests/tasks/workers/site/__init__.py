"""A small site whose tools take as long as a test wants."""
