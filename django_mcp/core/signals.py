"""Sent when something clients may have been told about is no longer so. ``live.changes`` passes it on."""

from django.dispatch import Signal

list_changed = Signal()
"""A list of an endpoint changed. Arguments: ``sender``, the ``MCPServer``; ``kind``, like ``"tools"``."""

resource_updated = Signal()
"""A resource has new contents. Arguments: ``sender``, the ``MCPServer``; ``uri``."""
