"""The response headers of the real service: account, edge and load in plain sight."""

from __future__ import annotations

from gateway.demo.stand_in.provider import Provider
from gateway.demo.stand_in.raw_ids import BASE62, HEX


def service_headers(provider: Provider, request_id: str) -> list[tuple[str, str]]:
    """Every header that the real service has been seen to add, with fresh values, all of them recorded."""
    ids = provider.ids
    ray = ids.note(ids.text(HEX, 16), "header cf-ray")
    trace = ids.note(ids.text(HEX, 32), "header traceresponse")
    bot, visitor = (ids.note(ids.text(BASE62, 43), "header set-cookie") for _ in range(2))
    return [
        ("openai-organization", provider.organization),
        ("openai-project", provider.project),
        ("openai-processing-ms", "42"),
        ("openai-version", "2020-10-01"),
        ("openai-model", "gpt-5-2025-08-07"),
        ("x-request-id", request_id),
        ("traceresponse", f"00-{trace}-{ids.text(HEX, 16)}-01"),
        ("x-ratelimit-limit-requests", "10000"),
        ("x-ratelimit-limit-tokens", "30000000"),
        ("x-ratelimit-remaining-requests", "9998"),
        ("x-ratelimit-remaining-tokens", "29870123"),
        ("x-ratelimit-reset-requests", "6ms"),
        ("x-ratelimit-reset-tokens", "0s"),
        ("set-cookie", f"__cf_bm={bot}; path=/; domain=.api.openai.com; HttpOnly; Secure; SameSite=None"),
        ("set-cookie", f"_cfuvid={visitor}; path=/; domain=.api.openai.com; HttpOnly; Secure; SameSite=None"),
        ("server", "cloudflare"),
        ("cf-ray", f"{ray}-AMS"),
        ("cf-cache-status", "DYNAMIC"),
        ("x-content-type-options", "nosniff"),
        ("strict-transport-security", "max-age=31536000; includeSubDomains; preload"),
        ("access-control-expose-headers", "X-Request-ID, CF-Ray"),
        ("alt-svc", 'h3=":443"; ma=86400'),
    ]
