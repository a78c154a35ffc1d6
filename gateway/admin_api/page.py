"""The table of the admin API for people, in Markdown: `docs/admin.md` holds it, `routes --admin` prints it."""

from __future__ import annotations

from collections.abc import Iterator

from gateway.admin_api.route import Member, Row
from gateway.admin_api.table import OF_TENANT, ROWS
from gateway.admin_api.tenant import PREFIX


def describe_admin_routes() -> Iterator[str]:
    """Lines: each route, what its body may hold, what its answer holds, and where tenants' own services find it."""
    for row in ROWS:
        yield from _describe(row)


def _describe(row: Row) -> Iterator[str]:
    yield f"### `{row.method} {row.path}`"
    yield f"{row.does[0].upper()}{row.does[1:]}."
    if row.scope:
        path = PREFIX + row.path.removeprefix(OF_TENANT)
        yield f"With a key that has `{row.scope}`: `{row.method} {path}` on the gateway's own port."
    yield ""
    for name, member in row.body.items():
        yield f"- takes `{name}` ({_kind(member)}): {member.does}"
    for name, meaning in row.answer.items():
        yield f"- {row.status} `{name}`: {meaning}"
    yield ""


def _kind(member: Member) -> str:
    return f"{member.form}, required" if member.required else member.form
