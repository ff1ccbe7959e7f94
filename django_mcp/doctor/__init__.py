"""``mcp_doctor``: checks of a running endpoint from outside, and of the site from inside.

Not imported by a serving site. ``diagnose.CHECKS`` lists the checks, ``messages.FINDINGS`` the possible findings.
"""
