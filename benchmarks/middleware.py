"""The middleware of every Django site that is measured, ours and others'."""

import os


def chosen() -> list[str]:
    """None where ``BENCH_MIDDLEWARE`` says so, else that of ``startproject``."""
    if os.environ.get("BENCH_MIDDLEWARE") == "none":
        return []
    return [
        "django.middleware.security.SecurityMiddleware",
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.middleware.common.CommonMiddleware",
        "django.middleware.csrf.CsrfViewMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
        "django.contrib.messages.middleware.MessageMiddleware",
        "django.middleware.clickjacking.XFrameOptionsMiddleware",
    ]
