"""An app with a tool that takes as long as a test wants."""
