"""Protocols 2025-11-25, 2025-06-18, 2025-03-26 and 2024-11-05: a handshake, and then calls.

This folder could be deleted as one, with the clients that need it.
"""
