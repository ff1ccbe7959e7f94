"""The soak: a site under mixed traffic for minutes, while its workers, Redis and PostgreSQL die and come back.

``python -m benchmarks.soak --minutes 10`` starts PostgreSQL, Redis and some workers of its own, keeps clients of both
eras busy with them, and judges at the end: was an answer lost, did anything run twice, did a process grow?
"""
