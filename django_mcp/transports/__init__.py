"""HTTP in, HTTP out: one core, and two thin edges around it."""
