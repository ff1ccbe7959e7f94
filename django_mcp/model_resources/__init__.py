"""Models as resources: one declaration of fields, filters, rows and people, and what is made of it."""
