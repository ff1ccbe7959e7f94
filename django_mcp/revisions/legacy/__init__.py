"""Protocols 2025-11-25 to 2024-11-05, which begin with a handshake. This folder can be deleted on its own."""
