"""What a server offers: tools, resources, resource templates and prompts, made from plain functions."""
