"""The agency: cities, flights, hotels, activities, a calendar, documents, and what it offers over MCP."""
