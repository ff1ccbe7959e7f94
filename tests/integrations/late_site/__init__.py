"""A site whose forms and serializers ask the database which choices there are, when they are made."""
