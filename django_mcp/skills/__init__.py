"""Skills: folders of instructions for models, served as resources (extension ``io.modelcontextprotocol/skills``)."""
