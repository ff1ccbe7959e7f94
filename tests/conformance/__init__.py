"""The official conformance suite: a site with its fixtures, and the harness that runs it against every edge.

``python -m tests.conformance.run`` is the way in; docs/conformance.md tells the rest.
"""
