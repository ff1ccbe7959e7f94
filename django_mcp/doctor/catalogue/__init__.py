"""All that may be found: id -> how bad it is, the sentence, the remedy. ``docs/doctor.md`` has the same table."""

from collections.abc import Mapping

from django_mcp.doctor.catalogue.clients import CLIENTS
from django_mcp.doctor.catalogue.site import SITE
from django_mcp.doctor.catalogue.ways import WAYS

FINDINGS: Mapping[str, tuple[str, str, str]] = {**WAYS, **CLIENTS, **SITE}
