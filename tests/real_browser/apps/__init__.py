"""A host of MCP Apps in Chromium, the rules it checks apps by, and what apps must not be able to do."""
