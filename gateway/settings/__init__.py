"""Settings: what the operator says, read once at start from `coatcheck.toml` and the environment, and checked whole.

Nothing else reads either. Every part takes its own frozen dataclass of plain values, so it can be built without this
package; `load` gathers them, or reports every mistake at once, each with its place and its mend.
"""

from gateway.settings.describe import describe, example
from gateway.settings.load import Mistake, SettingsError, load, wants_colours
from gateway.settings.sections import (
    Audit,
    Console,
    Demo,
    Log,
    Metrics,
    OpenAI,
    Redis,
    Requests,
    Server,
    Settings,
    TransportLimits,
)

__all__ = [
    "Audit",
    "Console",
    "Demo",
    "Log",
    "Metrics",
    "Mistake",
    "OpenAI",
    "Redis",
    "Requests",
    "Server",
    "Settings",
    "SettingsError",
    "TransportLimits",
    "describe",
    "example",
    "load",
    "wants_colours",
]
