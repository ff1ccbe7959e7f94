"""A Django site with fifty tools and nothing else."""
