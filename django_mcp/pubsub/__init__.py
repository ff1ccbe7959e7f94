"""State shared by processes: stored events, the notification that wakes their readers, and steps that run once."""
