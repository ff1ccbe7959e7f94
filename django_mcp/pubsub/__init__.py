"""What crosses processes: the log in the database, the bell that says it grew, and what is done once only."""
