"""A small site with an app that keeps the rules, one that breaks them, and one that attacks its host."""
