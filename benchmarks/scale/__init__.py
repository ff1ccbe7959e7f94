"""Do several workers behind nginx carry more, and lose nothing? ``python -m benchmarks.scale`` answers.

=================  ==========================================================================================
``nginx.py``       nginx with the configuration of ``docs/scaling.md``, round-robin and without stickiness
``stage.py``       workers, nginx, PostgreSQL and Redis, for as long as they are needed
``site/``          the benchmarked site, with a tool that leaves a row behind and one that streams
``client.py``      a client for sessions, streams and faults
``throughput.py``  one, two and four workers, in turn, under the load generator
``faults.py``      a worker is killed, or restarted, under load: who got what, and what is in the database
``streams.py``     a stream goes on at another worker
=================  ==========================================================================================
"""
