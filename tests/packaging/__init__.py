"""What is published: what is in it, and that a site can be made with it alone."""
