"""What people decide about tools, and where it counts."""
