"""How a client is spoken to. Everything that differs between protocol versions is in here and nowhere else."""
