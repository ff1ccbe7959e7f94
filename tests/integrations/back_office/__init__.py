"""A shop with an admin of its own, and the matrix of options of Django's admin: one ModelAdmin for each."""
