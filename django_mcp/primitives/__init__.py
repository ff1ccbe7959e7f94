"""Tools, resources, resource templates and prompts, built from plain functions."""
