"""A site whose admin needs middleware: of django-simple-history, django-auditlog and django-otp."""
