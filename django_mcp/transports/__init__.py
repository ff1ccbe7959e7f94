"""Transports: the Django view, the ASGI application, HTTP+SSE and stdio."""
