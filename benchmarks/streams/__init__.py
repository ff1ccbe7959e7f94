"""What do ten thousand open streams cost one process? ``python -m benchmarks.streams`` answers."""
