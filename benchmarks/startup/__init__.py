"""What does an endpoint cost a site when it starts? ``python -m benchmarks.startup`` answers.

Each server is started anew for each figure: the time is that from starting its process to the first answer, and its
memory is looked at right after that. Sites are ``startproject``'s, with one view, and the
same with django_mcp and six tools.

=====================  ======================================================================
``sites.py``           what is started, and what it is asked first
``bare.py``            settings of the site that ``startproject`` makes
``endpoint.py``        the same with django_mcp
``application.py``     the ASGI application of either
``sdk.py``             the official SDK's server, with the same tools
``memory.py``          what a process has in memory
``measure.py``         one start
``__main__.py``        all of them, in turn, and the table
=====================  ======================================================================
"""
