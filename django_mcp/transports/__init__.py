"""Transports: Django view, ASGI application and stdio."""
