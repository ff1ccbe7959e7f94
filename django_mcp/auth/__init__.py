"""Who calls. An endpoint has a list of authenticators and asks them in order."""
