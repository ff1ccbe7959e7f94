"""Tools and prompts from a site's forms, views and templates."""
