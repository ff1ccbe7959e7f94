"""System checks of who may call. What one finds is described in ``docs/checks.md``."""

from django_mcp.auth.checks.addresses import check_address_header, check_base_url, check_issuers
from django_mcp.auth.checks.asking import check_authenticators, check_order, check_sign_in
from django_mcp.auth.checks.openness import (
    check_cache,
    check_hosts,
    check_keys_in_urls,
    check_models_nobody_may_view,
    check_open_forms,
    check_public,
)
from django_mcp.auth.checks.scopes import check_declared, check_needed

ALWAYS = (
    check_base_url,
    check_issuers,
    check_address_header,
    check_authenticators,
    check_order,
    check_sign_in,
    check_keys_in_urls,
    check_models_nobody_may_view,
    check_declared,
    check_needed,
)
DEPLOY = (check_public, check_open_forms, check_hosts, check_cache)
