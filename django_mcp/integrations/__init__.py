"""What a site has already, as tools and prompts: forms, views, templates."""
