"""Answers that a proxy must survive. Each script word is one entry of a table."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import dataclass, field

from gateway.demo.stand_in import failures
from gateway.demo.stand_in.failures import Failure
from gateway.demo.stand_in.provider import Provider
from gateway.demo.stand_in.scripts import Script


@dataclass(slots=True)
class Body:
    """An answer just before it is written."""

    data: bytes
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


Spoiler = Callable[[Body, Script, Provider], Body]


def _gzip(body: Body, script: Script, provider: Provider) -> Body:
    return Body(gzip.compress(body.data), body.status, {**body.headers, "content-encoding": "gzip"})


def _malformed(body: Body, script: Script, provider: Provider) -> Body:
    return Body(body.data.rstrip(b"}\n") + b',"x_open":', body.status, body.headers)


def _duplicate_keys(body: Body, script: Script, provider: Provider) -> Body:
    twin = provider.ids.new("resp_", place="first of two equal keys")
    return Body(b'{"id":"%s",' % twin.encode() + body.data[1:], body.status, body.headers)


def _object_keys(body: Body, script: Script, provider: Provider) -> Body:
    key = provider.ids.new("msg_", place="name of a field")
    return Body(b'{"x_by_item":{"%s":1},' % key.encode() + body.data[1:], body.status, body.headers)


def _huge(body: Body, script: Script, provider: Provider) -> Body:
    padding = b"a" * (script.count("huge", 1) * 1024 * 1024)
    return Body(b'{"x_padding":"' + padding + b'",' + body.data[1:], body.status, body.headers)


def _deep(body: Body, script: Script, provider: Provider) -> Body:
    depth = script.count("deep", 1000)
    return Body(b'{"x_deep":' + b"[" * depth + b"]" * depth + b"," + body.data[1:], body.status, body.headers)


def _nan(body: Body, script: Script, provider: Provider) -> Body:
    return Body(b'{"x_nan":NaN,' + body.data[1:], body.status, body.headers)


def _bad_utf8(body: Body, script: Script, provider: Provider) -> Body:
    return Body(b'{"x_bytes":"\xff\xfe\xc3",' + body.data[1:], body.status, body.headers)


def _bom(body: Body, script: Script, provider: Provider) -> Body:
    return Body(b"\xef\xbb\xbf" + body.data, body.status, body.headers)


def _html(body: Body, script: Script, provider: Provider) -> Body:
    page = f"<html><h1>502 Bad Gateway</h1><p>Ray ID for {provider.organization}</p></html>"
    return Body(page.encode(), 502, {"content-type": "text/html"})


def _empty(body: Body, script: Script, provider: Provider) -> Body:
    return Body(b"", body.status, body.headers)


def _plain(body: Body, script: Script, provider: Provider) -> Body:
    return Body(body.data, body.status, {"content-type": "text/plain; charset=utf-8"})


def _redirect(body: Body, script: Script, provider: Provider) -> Body:
    target = provider.ids.new("resp_", place="header location")
    status = script.count("redirect", 307)
    return Body(b"", status, {"location": f"https://api.openai.com/v1/responses/{target}"})


SPOILERS: dict[str, Spoiler] = {
    "gzip": _gzip,
    "malformed": _malformed,
    "duplicate_keys": _duplicate_keys,
    "object_keys": _object_keys,
    "huge": _huge,
    "deep": _deep,
    "nan": _nan,
    "bad_utf8": _bad_utf8,
    "json_bom": _bom,
    "html": _html,
    "empty": _empty,
    "plain": _plain,
    "redirect": _redirect,
}
"""Script word → what it does to a JSON answer. They apply in the order in which they are written."""


def spoil(body: Body, script: Script, provider: Provider) -> Body:
    for word, _ in script.words:
        if word in SPOILERS:
            body = SPOILERS[word](body, script, provider)
    return body


def scripted_failure(script: Script, provider: Provider, request_id: str) -> Failure | None:
    """`status=N`: the failure of that status, in the real service's words, with account and request in them."""
    status = script.count("status")
    if not status:
        return None
    if status == 429:
        return failures.rate_limited("gpt-5", provider.organization)
    if status == 403:
        return failures.forbidden(provider.project)
    if status >= 500:
        failure = failures.server_error(status, request_id)
        if status == 503:
            failure.headers = {"retry-after": "1"}
        return failure
    return Failure(status, f"Request {request_id} was refused for {provider.organization}.")
