"""Templates and static files: read once, kept in memory, autoescaped. What a template calls is here, and nothing else is."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from heroicons.jinja import heroicon_mini, heroicon_outline
from jinja2 import DictLoader, Environment, StrictUndefined
from markupsafe import Markup
from starlette.responses import HTMLResponse, Response

from gateway.audit.search.query import Field, Query
from gateway.console.text import plain, pretty, shown
from gateway.names import TenantId

_HERE: Final = Path(__file__).parent
_EVERYTHING: Final = Query()
_ICONS: Final = (
    "archive-box", "arrow-down-tray", "arrow-left", "arrow-path", "arrow-right", "arrow-right-circle",
    "arrow-right-start-on-rectangle", "arrows-right-left", "calendar-days", "chat-bubble-left-right", "check-circle",
    "chevron-right", "clock", "ellipsis-horizontal-circle", "exclamation-circle", "exclamation-triangle", "eye", "funnel",
    "information-circle", "key", "lock-closed", "magnifying-glass", "no-symbol", "paper-airplane", "pause", "plus",
    "plus-circle", "question-mark-circle", "queue-list", "shield-check", "shield-exclamation", "signal", "trash", "users",
    "x-circle", "x-mark",
)  # fmt: skip
"""Every icon of the pages; they are read when the console starts, since the set is a file."""
_SIZES: Final = (16, 20)
_LARGE: Final = (32, 56)
_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


class Pages:
    """Made by `load`, which reads files."""

    def __init__(self, templates: Mapping[str, str], static: Mapping[str, bytes], icons: Mapping[str, Markup]) -> None:
        self._static = static
        self._environment = Environment(
            loader=DictLoader(dict(templates)),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self._environment.filters |= {
            "shown": shown,
            "plain": plain,
            "pretty": pretty,
            "moment": moment,
            "count": count,
            "epoch": epoch,
            "instant": instant,
            "took": took,
            "whole_second": whole_second,
        }
        self._environment.globals |= {
            "icon": lambda name, size=20: icons[f"{name} {size}"],
            "large_icon": lambda name, size: icons[f"{name} {size}"],
            "log_url": log_url,
            "event_url": event_url,
            "story_url": story_url,
            "query_url": query_url,
            "Field": Field,
        }
        for name in templates:
            self._environment.get_template(name)

    @classmethod
    def load(cls) -> Pages:
        """Blocks on files: call it in a thread."""
        return cls(
            {path.name: path.read_text("utf-8") for path in (_HERE / "templates").iterdir()},
            {path.name: path.read_bytes() for path in (_HERE / "static").iterdir()},
            _icons(),
        )

    def render(self, template: str, values: Mapping[str, Any], status: int = 200) -> HTMLResponse:
        return HTMLResponse(self._environment.get_template(template).render(values), status)

    def static(self, name: str) -> Response | None:
        content = self._static.get(name)
        return None if content is None else Response(content, media_type=_TYPES[Path(name).suffix])


def _icons() -> dict[str, Markup]:
    """By name and size; decoration, which no screen reader speaks of."""
    small = {f"{name} {size}": heroicon_mini(name, size=size, focusable="false") for name in _ICONS for size in _SIZES}
    large = {
        f"{name} {size}": heroicon_outline(name, size=size, focusable="false") for name in _ICONS for size in _LARGE
    }
    return {name: Markup(one) for name, one in (small | large).items()}  # noqa: S704 - the set's own


def moment(when: datetime | None, precise: bool = False) -> Markup:
    """A moment of the log, in UTC; a script may show it in the reader's own zone."""
    if when is None:
        return Markup('<span class="dim">no time</span>')
    machine = when.astimezone(UTC).isoformat().replace("+00:00", "Z")
    human = when.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S") + (f".{when.microsecond:06}" if precise else "")
    return Markup('<time datetime="{}">{}</time>').format(machine, human)


def count(number: int, one: str = "", many: str = "") -> str:
    """`1,234 records`; `many` is `one` and an s where it is not given."""
    return f"{number:,} {one if number == 1 else many or one + 's'}" if one else f"{number:,}"


def epoch(seconds: float) -> datetime:
    """A moment from UTC seconds."""
    return datetime.fromtimestamp(seconds, UTC)


def instant(moment_us: int) -> datetime:
    """A moment from UTC microseconds."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=moment_us)


def whole_second(moment_us: int | None, up: bool = False) -> str:
    """As a field for a time takes it, in UTC; empty for no moment. A part of a second is cut off, or made whole."""
    if moment_us is None:
        return ""
    return instant((moment_us + 999_999 * up) // 1_000_000 * 1_000_000).strftime("%Y-%m-%dT%H:%M:%S").zfill(19)


def took(duration_us: int) -> str:
    """`1.89 s`, `180 ms` or `0.4 ms`."""
    if duration_us >= 1_000_000:
        return f"{duration_us / 1e6:,.2f} s"
    return f"{duration_us / 1e3:,.0f} ms" if duration_us >= 10_000 else f"{duration_us / 1e3:,.1f} ms"


def query_url(path: str, query: Query, **more: object) -> str:
    """The address of a page with the whole query in it."""
    pairs = [*query.items(), *((name, str(value)) for name, value in more.items() if value is not None)]
    return path + ("?" + urlencode(pairs) if pairs else "")


def log_url(field: Field, value: str, query: Query = _EVERYTHING, *, negated: bool = False) -> str:
    """The log, narrowed to one value of a field."""
    return query_url("/log", query.with_filter(field, value[:256], negated=negated))


def event_url(tenant: TenantId, seq: int, tail: str = "") -> str:
    """An event's permanent address. It names the tenant, so that it leads another tenant's reviewer nowhere."""
    return f"/event/{tenant}/{seq}{tail}"


def story_url(target: str) -> str:
    return "/story?" + urlencode({"id": target})
