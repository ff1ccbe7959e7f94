"""Serve models as resources and tools, from one declaration of fields, filters, rows and permissions."""
