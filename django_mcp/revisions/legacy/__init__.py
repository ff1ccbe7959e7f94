"""Protocols 2025-11-25, 2025-06-18, 2025-03-26 and 2024-11-05, which begin with a handshake.

This folder can be deleted together with support for these clients.
"""
