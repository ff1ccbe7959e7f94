"""The app config: start-up and autodiscovery of ``mcp`` modules."""

import logging
import os
from typing import Any

from django.apps import AppConfig, apps
from django.core.checks import register
from django.utils.module_loading import autodiscover_modules

from django_mcp.conf import check_required, faults, missing_apps, settings
from django_mcp.core.resources import credential_checks, renewers, site_checks
from django_mcp.core.server import restore_all, snapshots

logger = logging.getLogger("django_mcp")

RELOADED = "RUN_MAIN"
"""Environment variable of processes started by Django's autoreloader (``django.utils.autoreload``)."""


class _Registries:
    """The registry that ``autodiscover_modules`` restores if importing an ``mcp`` module fails."""

    @property
    def _registry(self) -> Any:
        return snapshots()

    @_registry.setter
    def _registry(self, before: Any) -> None:
        restore_all(before)


class DjangoMCPConfig(AppConfig):
    """The app config, which imports the ``mcp`` module of every installed app, as the admin does with ``admin``."""

    name = "django_mcp"
    label = "django_mcp"
    verbose_name = "Model Context Protocol"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register checks, connect signals and import the ``mcp`` modules. An import error stops the start.

        Optional features are imported on first use: each ``receivers`` module imports the rest of its folder inside
        functions (decision 38).
        """
        for fault in faults():  # the system checks do not get to it if importing the site's URLs fails
            logger.error("%s No endpoint is served until this is corrected.", fault)
        if missing_apps():
            register(check_required, "django_mcp")
            return
        from django_mcp import checks  # noqa: F401 - registers them
        from django_mcp.approvals import receivers as approvals
        from django_mcp.approvals import tool_policies
        from django_mcp.audit import recorder
        from django_mcp.auth import api_keys, base, log_filter, oauth
        from django_mcp.auth import receivers as auth  # noqa: F401 - connects its signals
        from django_mcp.model_resources import receivers as model_resources
        from django_mcp.pubsub import receivers as pubsub
        from django_mcp.skills import receivers as skills
        from django_mcp.tasks import receivers as tasks

        if oauth.has_toolkit():
            from django_mcp.oauth import receivers  # noqa: F401 - connects its signals

        renewers.update(api_key=api_keys.renewed, client=oauth.renewed, oauth=oauth.renewed)
        credential_checks[:] = [base.find_ended]
        site_checks[:] = [base.asks_site]
        pubsub.connect_permissions()
        for feature in (approvals, model_resources, tasks):
            feature.connect()
        if RELOADED in os.environ:  # runserver
            pubsub.connect_reloading()
        recorder.install()
        log_filter.install_where_wanted()
        autodiscover_modules("mcp", register_to=_Registries())
        if settings.APPROVALS_APP and apps.is_installed("django.contrib.admin"):
            from django_mcp.admin import approvals_app

            approvals_app.start()
        model_resources.start()
        skills.start()
        tasks.prepare()
        approvals.start()
        tool_policies.start_loading()
