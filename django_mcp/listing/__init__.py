"""Rules of directories of connectors, and the public documents by which they find endpoints."""
