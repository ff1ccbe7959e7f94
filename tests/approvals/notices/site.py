"""Settings of a site in processes of its own. ``NOTICES_WEBHOOK`` says where its webhook goes."""

import os

from tests.approvals.notices.receiver import SECRET
from tests.conformance.settings import *  # noqa: F403

ROOT_URLCONF = "tests.approvals.notices.urls"
DJANGO_MCP = {
    "AUTHENTICATION": ["django_mcp.AllowAny"],
    "BASE_URL": "https://travel.example.com",
    "APPROVAL_WEBHOOK": os.environ["NOTICES_WEBHOOK"],
    "APPROVAL_WEBHOOK_SECRET": SECRET,
}
