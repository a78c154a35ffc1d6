"""The `[[openai.upstream]]` tables: further keys, projects and servers beside `[openai]` (`gateway/upstreams/fleet.py`)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from gateway.settings.readers import (
    read_bool,
    read_int,
    read_path,
    read_secret_file,
    read_text,
    read_token_file,
    read_webhook_secret,
)
from gateway.settings.tables import TableKey, read_table
from gateway.upstreams.credentials import UpstreamCredential
from gateway.upstreams.fleet import MAX_WEIGHT, UpstreamSettings
from gateway.upstreams.origin import parse_base_url

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")


def _name(value: object) -> str:
    text = read_text(value)
    if not _NAME.fullmatch(text):
        raise ValueError("must be 1 to 32 of a-z, 0-9 and -")
    return text


def _webhook_secret(value: object) -> str:
    return read_webhook_secret(read_secret_file(read_path(value)))


def _weight(value: object) -> int:
    number = read_int(value)
    if not 0 <= number <= MAX_WEIGHT:
        raise ValueError(f"must be 0 to {MAX_WEIGHT}")
    return number


UPSTREAM_KEYS: Final[dict[str, TableKey]] = {
    "name": TableKey(_name, "What records and logs call this key. It never changes.", '"second"'),
    "base_url": TableKey(
        read_text, "Where its requests go; any server that speaks the same API.", '"https://api.openai.com/v1"'
    ),
    "api_key_file": TableKey(read_token_file, "File with its key, readable by its owner only.", '"second.key"'),
    "scope": TableKey(
        _name,
        "The project whose objects it sees, in a name of your own that never changes. Keys with one scope serve each "
        "other's objects, so a new key takes over the old one's. Left out: the name.",
        '"second"',
    ),
    "organization": TableKey(read_text, "Sent as OpenAI-Organization.", '"org-…"'),
    "project": TableKey(read_text, "Sent as OpenAI-Project.", '"proj_…"'),
    "webhook_secret_file": TableKey(
        _webhook_secret,
        "File with the secret that its project's webhooks are signed with; they are received at /webhooks/ and its name.",
        '"second.whsec"',
    ),
    "weight": TableKey(
        _weight,
        f"Its share of the tenants, 0 to {MAX_WEIGHT}. 0 drains it: what it made stays, nothing new comes.",
        "1",
    ),
    "api_key_header": TableKey(
        read_bool, "Shows the key as `api-key`, as Azure OpenAI takes it, and not as a bearer.", "false"
    ),
    "allow_plain_http": TableKey(
        read_bool, "Accepts http beyond this machine, for a server in a network of your own.", "false"
    ),
}


def read_upstream(table: Mapping[str, object]) -> UpstreamSettings | dict[str, str]:
    """One table's settings, or what is wrong with it: the mend by key."""
    values, wrong = read_table(table, UPSTREAM_KEYS, ("name", "base_url", "api_key_file"), "an upstream")
    if "base_url" in values:
        try:
            parse_base_url(values["base_url"], allow_plain_http=values.get("allow_plain_http", False))
        except ValueError as error:
            wrong["base_url"] = str(error)
    for name in ("organization", "project"):
        try:
            UpstreamCredential("-", values.get(name), None)
        except ValueError as error:
            wrong[name] = str(error)
    if wrong:
        return wrong
    credential = UpstreamCredential(
        values["api_key_file"],
        values.get("organization"),
        values.get("project"),
        api_key_header=values.get("api_key_header", False),
    )
    return UpstreamSettings(
        name=values["name"],
        origin=parse_base_url(values["base_url"], allow_plain_http=values.get("allow_plain_http", False)),
        credential=credential,
        scope=values.get("scope", values["name"]),
        weight=values.get("weight", 1),
        webhook_secret=values.get("webhook_secret_file", ""),
    )
