"""What ``startmcp`` writes."""
