"""`webhook …` as an operator uses it: real commands, a real Redis, a real receiver."""

from __future__ import annotations

import json

import pytest
from openai import OpenAI

from gateway.webhooks.registry import MOST
from tests.admin.test_streams import Receiver, desk, receiver
from tests.command_fixture import Shell, shell
from tests.redis_fixture import _session_redis_server, redis_server

__all__ = ["_session_redis_server", "desk", "receiver", "redis_server", "shell"]


def log(shell: Shell) -> list[tuple[str, str]]:
    """Type and result of what was done with webhooks."""
    events = [json.loads(line)["event"] for line in shell.out("audit", "tail", "acme", "--json").splitlines()]
    done = [one for one in events if one["type"].startswith("webhook.") and one["outcome"]]
    return [(one["type"], one["outcome"]["result"]) for one in done]


def test_a_webhook_is_added_tried_rotated_listed_and_removed_and_all_of_it_is_on_record(
    desk: Shell, receiver: Receiver
) -> None:
    added = desk.spawn("webhook", "add", "acme", receiver.url)
    assert (added.code, added.out.startswith("whsec_"), len(added.out.split())) == (0, True, 1)
    row = desk.out("webhook", "list", "acme")
    hook = row.split()[0]
    assert hook in added.err
    assert "up to date" in row
    assert "hush" not in row
    assert "answered 200" in desk.spawn("webhook", "test", "acme", hook).err
    told = OpenAI(api_key="none").webhooks.unwrap(receiver.bodies[0], receiver.heads[0], secret=added.out.strip())
    assert str(told.type) == "webhook.test"
    receiver.status = 500
    refused = desk.spawn("webhook", "test", "acme", hook)
    assert (refused.code, "answered 500" in refused.err) == (1, True)
    rotated = desk.spawn("webhook", "rotate", "acme", hook)
    assert rotated.out.startswith("whsec_")
    assert rotated.out != added.out
    assert desk.spawn("webhook", "dead", "acme", hook).out == ""
    assert "0 dead letters" in desk.spawn("webhook", "replay", "acme", hook).err
    assert desk.spawn("webhook", "remove", "acme", hook).code == 0
    assert desk.out("webhook", "list", "acme") == ""
    done = ("add", "list", "test", "test", "rotate", "dead", "replay", "remove", "list")
    assert log(desk)[-9:] == [(f"webhook.{what}", "allow") for what in done]
    whole = desk.out("audit", "tail", "acme", "--json")
    assert not [secret for secret in ("hush", added.out.strip(), rotated.out.strip()) if secret in whole]


@pytest.mark.parametrize("command", ["test", "rotate", "remove", "dead", "replay"])
def test_a_webhook_that_is_none_is_refused_by_every_command(shell: Shell, command: str) -> None:
    shell.out("tenant", "create", "acme")
    refused = shell.spawn("webhook", command, "acme", "hook_0000000000000000")
    assert (refused.code, refused.out) == (1, "")
    assert "no such webhook" in refused.err


def test_an_address_inside_is_refused_and_the_refusal_is_on_record(shell: Shell) -> None:
    shell.out("tenant", "create", "acme")
    for url in ("http://127.0.0.1:1/", "https://169.254.169.254/latest", "ftp://example.com/"):
        refused = shell.spawn("webhook", "add", "acme", url)
        assert (refused.code, refused.out) == (1, "")
        assert "address" in refused.err
    assert log(shell) == [("webhook.add", "deny")] * 3


def test_a_tenant_has_only_so_many(desk: Shell, receiver: Receiver) -> None:
    for _ in range(MOST):
        assert desk.run("webhook", "add", "acme", receiver.url).code == 0
    refused = desk.run("webhook", "add", "acme", receiver.url)
    assert (refused.code, f"at most {MOST}" in refused.err) == (1, True)


@pytest.mark.parametrize("command", ["remove", "test", "rotate"])
def test_a_webhook_that_is_not_there_is_refused(desk: Shell, command: str) -> None:
    done = desk.spawn("webhook", command, "acme", "hook_nothing")
    assert (done.code, "no such webhook" in done.err) == (1, True)
