"""Authentication of requests. An endpoint tries its authentication classes in order."""
