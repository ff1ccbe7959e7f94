"""State shared by processes: stored events, notifications of them, and steps that run once."""
