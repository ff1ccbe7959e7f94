"""What ``manage.py mcp_doctor`` looks at: the running endpoint as clients reach it, and the site from inside.

Nothing here is imported by a site that serves. ``checks.CHECKS`` is the table of what is looked at, one module for each
kind, and ``catalogue.FINDINGS`` that of what may be found.
"""
