"""Other packages' APIs as tools; each is imported only by sites that have it."""
