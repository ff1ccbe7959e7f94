"""Authentication: an endpoint tries its authentication classes in order."""
