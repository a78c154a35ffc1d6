"""The transport's limits. They are settings like all others, so they are defined, documented and checked there."""

from gateway.settings.sections import TransportLimits as Limits

__all__ = ["Limits"]
