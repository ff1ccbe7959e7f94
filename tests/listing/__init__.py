"""Directories of connectors: their rules, and the public documents."""
