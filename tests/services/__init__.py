"""A site that had its services before, and offers them."""
