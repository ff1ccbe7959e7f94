"""Approvals between real processes: of the client, of the worker, and of whoever decides."""
