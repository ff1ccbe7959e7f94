"""Types, what they are in JSON Schema, and what a bad value is told: the table in ``docs/types.md``."""
