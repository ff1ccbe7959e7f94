"""A site with an admin of each package that replaces parts of Django's, for the judge."""
