"""System checks of the authorization server, asked where an endpoint takes OAuth tokens of this site."""

from django_mcp.oauth.checks.clients import check_applications, check_grace, check_ports, check_redirects
from django_mcp.oauth.checks.routes import check_toolkit_views, check_well_known
from django_mcp.oauth.checks.site import check_apps, check_login, check_middleware, check_path, check_reads
from django_mcp.oauth.checks.toolkit_settings import check_issuer, check_toolkit_settings

ALWAYS = (
    check_redirects,
    check_ports,
    check_grace,
    check_toolkit_views,
    check_well_known,
    check_apps,
    check_reads,
    check_middleware,
    check_login,
    check_path,
    check_toolkit_settings,
    check_issuer,
)
DATABASE = (check_applications,)
