"""A site whose tools leave a row for each time they ran."""
