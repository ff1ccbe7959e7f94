"""System checks of approvals: who is told of calls that wait, and what nobody guards."""

from django_mcp.approvals.notice_checks import check_addresses, check_page, check_transport, check_webhook
from django_mcp.approvals.unguarded_checks import check_admin, check_approvals, check_destruction

ALWAYS = (check_webhook, check_addresses, check_page, check_approvals, check_admin)
DEPLOY = (check_transport, check_destruction)
