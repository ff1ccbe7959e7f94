"""Protocol revisions: everything that differs between protocol versions."""
