"""What does a request cost when the tables have grown a hundredfold? ``python -m benchmarks.growth`` answers.

====================  =========================================================================================
``tables.py``         rows of every table that grows with use
``callers.py``        who calls, and the server they call, in this process
``traffic.py``        the calls: every machinery that keeps rows, and what a site does beside them
``watching.py``       the statements these lead to, whatever thread sends them: none is listed by hand
``plans.py``          how the database goes about each, and whether it reads a table from end to end
``measure.py``        one database: fills, calls, looks
``report.py``         which statements are flat, and which are not
====================  =========================================================================================
"""
