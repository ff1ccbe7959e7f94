"""Tests. They mirror the package; what runs for every kind of client is in ``tests/behaviour``."""
