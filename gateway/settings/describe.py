"""The settings for people: the list behind `serve --help`, and the commented file `deploy/coatcheck.toml`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from textwrap import wrap
from typing import Final

from gateway.settings.console_issuers import CONSOLE_ISSUER_KEYS
from gateway.settings.issuers import ISSUER_KEYS
from gateway.settings.keys import KEYS, SECTIONS, Key
from gateway.settings.upstreams import UPSTREAM_KEYS

_WIDTH: Final = 118

_OPENING: Final = """\
# Coatcheck's settings: each with its meaning and its default. Take the # off what you change.
# Numbers are seconds where the name ends in _s, bytes where it ends in _bytes. Paths are relative to the working folder.
# The environment variable beside a setting wins over this file. Secrets never stand here: they come from their variable,
# or from a file that its owner alone may read. `python -m gateway serve --help` prints the same list.
"""

_ISSUERS: Final = """\
# Identity providers whose access tokens are accepted: one [[issuer]] table each. Below are examples, and the defaults
# where there are some. An issuer speaks for one tenant, or for a closed list of tenants, never for whom it likes.
"""

_UPSTREAMS: Final = """\
# Further keys, projects and servers beside [openai]: one [[openai.upstream]] table each. A tenant's new objects are made
# at one of them; what exists is served by the key that made it, or by another of its scope.
"""

_CONSOLE_ISSUERS: Final = """\
# OpenID providers that auditors sign in to the console with: one [[console.issuer]] table each. The redirect address to
# register there is the console's url with /sign-in/done behind it.
"""

_TABLES: Final = (
    (_UPSTREAMS, "openai.upstream", UPSTREAM_KEYS),
    (_ISSUERS, "issuer", ISSUER_KEYS),
    (_CONSOLE_ISSUERS, "console.issuer", CONSOLE_ISSUER_KEYS),
)
"""What may be there several times: what to say of it, its name, and its keys."""


def describe() -> str:
    """Every setting: its key in the file, its variable, default, unit and meaning."""
    lines = []
    for row in KEYS:
        variable = f"{row.env} or {row.env}_FILE" if row.secret else row.env
        default = f", default {_toml(row)}{' ' + row.unit if row.unit else ''}" if _toml(row) else ""
        lines += [
            row.place,
            f"    {variable}{default}",
            *wrap(row.doc, 100, initial_indent="    ", subsequent_indent="    "),
        ]
    for _, table, keys in _TABLES:
        lines += [f"[[{table}]] (in the file only)"]
        lines += [f"    {name}: {one.doc}" for name, one in keys.items()]
    return "\n".join(lines)


def example() -> str:
    """The whole of `deploy/coatcheck.toml`: with every # before a key taken off, it sets every default."""
    parts = [_OPENING]
    for section in SECTIONS:
        heading = [f"[{section}]"] if section else []
        parts.append(
            "\n".join([*heading, *(line for row in KEYS if row.section == section for line in _entry(row))]) + "\n"
        )
    for opening, name, keys in _TABLES:
        entries = "".join(f"# {one.doc}\n#{key} = {one.example}\n" for key, one in keys.items())
        parts.append(f"{opening}#[[{name}]]\n{entries}")
    return "\n".join(parts)


def _entry(row: Key) -> Iterator[str]:
    variable = f"{row.env}, or {row.env}_FILE" if row.secret else row.env
    yield from wrap(f"{row.doc} ({variable})", _WIDTH, initial_indent="# ", subsequent_indent="# ")
    yield f"#{row.in_file} = " + (_toml(row) or '""')


def _toml(row: Key) -> str:
    """The default as TOML; nothing where there is none."""
    default = row.default
    if row.secret or default is None or default == "":
        return ""
    if isinstance(default, tuple | bool):
        return json.dumps(default)
    if isinstance(default, Path | str):
        return json.dumps(str(default))
    if isinstance(default, int) and default >= 10_000:
        return f"{default:_}"
    return str(default)
