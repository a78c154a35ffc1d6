"""The `[[openai.upstream]]` tables: further keys, projects and servers beside `[openai]` (`gateway/upstreams/fleet.py`)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from gateway.settings.issuers import IssuerKey
from gateway.settings.readers import (
    read_bool,
    read_int,
    read_path,
    read_secret_file,
    read_text,
    read_token,
    read_webhook_secret,
)
from gateway.upstreams.credentials import UpstreamCredential
from gateway.upstreams.fleet import MAX_WEIGHT, UpstreamSettings
from gateway.upstreams.origin import parse_base_url

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")


def _name(value: object) -> str:
    text = read_text(value)
    if not _NAME.fullmatch(text):
        raise ValueError("must be 1 to 32 of a-z, 0-9 and -")
    return text


def _secret(value: object) -> str:
    return read_token(read_secret_file(read_path(value)))


def _webhook_secret(value: object) -> str:
    return read_webhook_secret(read_secret_file(read_path(value)))


def _weight(value: object) -> int:
    number = read_int(value)
    if not 0 <= number <= MAX_WEIGHT:
        raise ValueError(f"must be 0 to {MAX_WEIGHT}")
    return number


UPSTREAM_KEYS: Final[dict[str, IssuerKey]] = {
    "name": IssuerKey(_name, "What records and logs call this key. It never changes.", '"second"'),
    "base_url": IssuerKey(
        read_text, "Where its requests go; any server that speaks the same API.", '"https://api.openai.com/v1"'
    ),
    "api_key_file": IssuerKey(_secret, "File with its key, readable by its owner only.", '"second.key"'),
    "scope": IssuerKey(
        _name,
        "The project whose objects it sees, in a name of your own that never changes. Keys with one scope serve each "
        "other's objects, so a new key takes over the old one's. Left out: the name.",
        '"second"',
    ),
    "organization": IssuerKey(read_text, "Sent as OpenAI-Organization.", '"org-…"'),
    "project": IssuerKey(read_text, "Sent as OpenAI-Project.", '"proj_…"'),
    "webhook_secret_file": IssuerKey(
        _webhook_secret,
        "File with the secret that its project's webhooks are signed with; they are received at /webhooks/ and its name.",
        '"second.whsec"',
    ),
    "weight": IssuerKey(
        _weight,
        f"Its share of the tenants, 0 to {MAX_WEIGHT}. 0 drains it: what it made stays, nothing new comes.",
        "1",
    ),
    "api_key_header": IssuerKey(
        read_bool, "Shows the key as `api-key`, as Azure OpenAI takes it, and not as a bearer.", "false"
    ),
    "allow_plain_http": IssuerKey(
        read_bool, "Accepts http beyond this machine, for a server in a network of your own.", "false"
    ),
}


def read_upstream(table: Mapping[str, object]) -> UpstreamSettings | dict[str, str]:
    """One table's settings, or what is wrong with it: the mend by key."""
    values: dict[str, Any] = {}
    wrong = {name: "is missing" for name in ("name", "base_url", "api_key_file") if name not in table}
    for name, value in table.items():
        if name not in UPSTREAM_KEYS:
            wrong[name] = f"is no key of an upstream; the keys are {', '.join(UPSTREAM_KEYS)}"
            continue
        try:
            values[name] = UPSTREAM_KEYS[name].read(value)
        except ValueError as error:
            wrong[name] = str(error)
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
