"""A site with two tables of books, one of them a thousand times as long as the other."""
