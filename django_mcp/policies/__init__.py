"""What people decided about tools: the rows, and how every process comes to know of them."""
