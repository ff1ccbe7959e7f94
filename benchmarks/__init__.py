"""How fast is django_mcp, compared with the official SDK and with the machine's limit?

``python -m benchmarks`` (or ``make bench``) answers. Speed is a promise of this package, so it is measured
the way a doubter would: every answer of every server is checked, all servers are measured in every round in
random order, and what is reported is the ratio within a round, which the mood of the machine bends least.

=====================  ======================================================================
``targets.py``         what is measured, against what, and the ratio promised: a list
``servers/``, ``site/``  the official SDK's server, the bare ASGI limit, and a Django site, 50 tools each
``catalogue.py``       those 50 tools, written once
``shapes.py``          requests on the wire, and what makes an answer right
``load.py``            the load generator, a process of its own
``wire.py``            HTTP/1.1 as the load generator reads it
``measurement.py``     what it finds: rate, latencies, processor time
``process.py``         starting, pinning and ending processes
``runner.py``          the rounds
``report.py``          ratios, medians, tables
``plots.py``           ratios as SVG
``saved.py``           a run as JSON, to make tables and plots anew
=====================  ======================================================================
"""
