"""The composition root of the admin API: settings and the operator's desk → its ASGI app."""

from __future__ import annotations

from gateway.admin.desk import Desk
from gateway.admin_api.operator import AdminApi
from gateway.settings import Settings
from gateway.transport.guard import App


def admin_api(settings: Settings, desk: Desk) -> App:
    """The app. ValueError where there is no credential, though settings without one are refused before."""
    if not settings.admin.token:
        raise ValueError("the admin API is served with a credential, or not at all")
    return AdminApi(desk, settings.admin.token, settings.transport)
