"""REST framework's own tutorial, written afresh: snippets of code, their owners, and what a snippet looks like."""
