"""Integrations with other packages' APIs. Each is imported only by sites that use it."""
