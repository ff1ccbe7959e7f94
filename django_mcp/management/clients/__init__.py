"""Settings for clients of endpoints, ready to paste."""
