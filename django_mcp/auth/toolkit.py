"""Imports from django-oauth-toolkit, in one place: its next release moves modules.

Import it after Django's setup, with ``oauth2_provider`` installed.
"""

import logging

from oauth2_provider.cimd import CIMDError, SafeMetadataFetcher, is_cimd_client_id
from oauth2_provider.exceptions import FatalClientError, OAuthToolkitError
from oauth2_provider.models import (
    AbstractApplication,
    get_access_token_model,
    get_application_model,
    get_grant_model,
    get_refresh_token_model,
    refresh_token_expire_timedelta,
    set_token_value,
)
from oauth2_provider.oauth2_backends import OAuthLibCore
from oauth2_provider.oauth2_validators import GRANT_TYPE_MAPPING, OAuth2Validator
from oauth2_provider.scopes import get_scopes_backend
from oauth2_provider.settings import oauth2_settings
from oauth2_provider.validators import AllowedURIValidator
from oauth2_provider.views.base import AuthorizationView, RevokeTokenView, TokenView

# oauthlib writes codes and tokens into its debug logs. A filter of a parent would not see the records of its children.
for _name in [*logging.root.manager.loggerDict]:
    if _name == "oauthlib" or _name.startswith("oauthlib."):
        logging.getLogger(_name).addFilter(lambda record: record.levelno > logging.DEBUG)

__all__ = [
    "GRANT_TYPE_MAPPING",
    "AbstractApplication",
    "AllowedURIValidator",
    "AuthorizationView",
    "CIMDError",
    "FatalClientError",
    "OAuth2Validator",
    "OAuthLibCore",
    "OAuthToolkitError",
    "RevokeTokenView",
    "SafeMetadataFetcher",
    "TokenView",
    "get_access_token_model",
    "get_application_model",
    "get_grant_model",
    "get_refresh_token_model",
    "get_scopes_backend",
    "is_cimd_client_id",
    "oauth2_settings",
    "refresh_token_expire_timedelta",
    "set_token_value",
]
