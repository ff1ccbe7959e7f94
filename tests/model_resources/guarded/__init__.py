"""A site that has django-guardian and rules, in a process of its own."""
