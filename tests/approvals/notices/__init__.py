"""Word to people and programs that a call waits."""
