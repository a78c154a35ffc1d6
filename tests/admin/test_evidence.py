"""`audit export`, `verify`, `proof` and `key` as an operator and an auditor run them."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import redis

from gateway.audit.genuine import EventKey, event_key
from gateway.ids.keys import LocalRoot
from gateway.names import TenantId
from gateway.stores.address import parse_target
from gateway.stores.audit_keyring import AuditKeyring
from gateway.stores.link import Link
from gateway.stores.node import LinkSettings
from gateway.stores.redis import SCRIPTS, RedisStore
from tests.audit.logbook import change_bodies
from tests.audit.verifiers import codes
from tests.audit.written_log import write
from tests.command_fixture import ROOT_KEY, Shell, shell
from tests.redis_fixture import RedisServer, _session_redis_server, redis_server

__all__ = ["_session_redis_server", "redis_server", "shell"]


@pytest.fixture
def tenant(shell: Shell) -> str:
    """A tenant with some events, and its public key in the file `key`."""
    tenant = shell.out("tenant", "create", "acme")
    for number in range(3):
        shell.out("key", "create", "acme", "--subject", f"user{number}")
    (shell.folder / "key").write_text(shell.out("audit", "key", "acme") + "\n")
    return tenant


def auditor(shell: Shell) -> Shell:
    """Somebody else's machine: no settings, no store, no key but the public one."""
    return Shell(shell.folder)


def test_an_auditor_verifies_an_export_with_the_public_key_alone(shell: Shell, tenant: str) -> None:
    done = shell.run("audit", "export", "acme", "--out", "export")
    assert (done.code, done.out) == (0, "")
    assert f"/{tenant} are in export" in done.err
    verified = auditor(shell).spawn("audit", "verify", "export", "--key", "key")
    assert (verified.code, verified.err) == (0, "")
    assert verified.out.startswith("WHOLE: 8 events of coatcheck/")
    assert "Not held against an anchor" in verified.out


def test_both_verifiers_believe_what_the_commands_write(shell: Shell, tenant: str) -> None:
    event = json.loads(shell.out("audit", "tail", "acme", "--json").splitlines()[4])["event"]["id"]
    (shell.folder / "event.tlog-proof").write_text(shell.out("audit", "proof", "acme", event) + "\n")
    shell.out("audit", "export", "acme", "--out", "range")
    shell.out("audit", "export", "acme", "--out", "selection", "--filter", "type=key.create")
    for name in ("range", "selection", "event.tlog-proof"):
        assert codes(shell.folder / name, shell.folder / "key") == [0, 0]
    by_hand = [sys.executable, "-m", "tests.audit.second_verifier", str(shell.folder / "range"), "--key"]
    root = Path(__file__).parent.parent.parent
    for key, code in (("key", 0), ("range/manifest.json", 2)):
        done = subprocess.run([*by_hand, str(shell.folder / key)], cwd=root, capture_output=True, check=False)
        assert done.returncode == code


def test_one_changed_byte_is_named_and_explained(shell: Shell, tenant: str) -> None:
    shell.out("audit", "export", "acme", "--out", "export")
    path = shell.folder / "export" / "events-000000000001.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:4], lines[4].replace(b"allow", b"alloW"), *lines[5:]]))
    verified = auditor(shell).run("audit", "verify", "export", "--key", "key")
    assert verified.code == 1
    assert verified.out.splitlines()[:2] == [
        "NOT WHOLE: event 5: its bytes are not the ones whose hash stands beside them",
        "  The event was changed after it was exported, or is not at its place.",
    ]


def test_what_cannot_be_used_is_told_apart(shell: Shell, tenant: str) -> None:
    verified = auditor(shell).run("audit", "verify", "nowhere", "--key", "key")
    assert (verified.code, verified.out) == (2, "")
    assert verified.err == "error: nowhere: there is no export in it\n"
    shell.out("audit", "export", "acme", "--out", "export")
    assert auditor(shell).run("audit", "verify", "export", "--key", "none").code == 2
    assert auditor(shell).run("audit", "verify", "export", "--key", "key", "--anchor", "key").code == 2


def test_a_filtered_export_proves_each_event(shell: Shell, tenant: str) -> None:
    shell.out("audit", "export", "acme", "--out", "export", "--filter", "type=key.create", "--filter", "phase!=intent")
    lines = (shell.folder / "export" / "events-000000000003.jsonl").read_text().splitlines()
    assert [json.loads(line)["seq"] for line in lines] == [3, 5, 7]
    verified = auditor(shell).run("audit", "verify", "export", "--key", "key")
    assert verified.code == 0
    assert verified.out.startswith("WHOLE: 3 events of")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--filter", "colour=red"], "colour: no such filter"),
        (["--filter", "type"], "NAME=VALUE or NAME!=VALUE is expected"),
        (["--filter", "last=1h"], "NAME=VALUE or NAME!=VALUE is expected"),
        (["--since", "yesterday"], "since: a moment as in"),
        (["--since", "2026-01-02T00:00:00Z", "--until", "2026-01-01T00:00:00Z"], "until: must be later than since"),
        (["--since", "2100-01-02T00:00:00Z"], "there is no event in this time"),
    ],
)
def test_a_query_that_cannot_be_meant_is_refused(shell: Shell, tenant: str, arguments: list[str], said: str) -> None:
    done = shell.run("audit", "export", "acme", "--out", "export", *arguments)
    assert done.code in (1, 2)
    assert said in done.err
    assert not (shell.folder / "export").exists()


def test_a_proof_verifies_with_the_public_key_alone(shell: Shell, tenant: str) -> None:
    event = json.loads(shell.out("audit", "tail", "acme", "--json").splitlines()[4])
    proof = shell.out("audit", "proof", "acme", event["event"]["id"])
    (shell.folder / "event.tlog-proof").write_text(proof + "\n")
    verified = auditor(shell).spawn("audit", "verify", "event.tlog-proof", "--key", "key")
    assert (verified.code, verified.err) == (0, "")
    assert verified.out.startswith(f"PROVEN: event {event['seq']} of coatcheck/")
    assert json.loads(verified.out.splitlines()[1]) == event
    (shell.folder / "event.tlog-proof").write_text(proof.replace("index ", "index 1") + "\n")
    verified = auditor(shell).run("audit", "verify", "event.tlog-proof", "--key", "key")
    assert verified.code == 1
    assert verified.out.startswith("NOT PROVEN: event ")
    assert shell.run("audit", "proof", "acme", "999").code == 1
    assert "an event's ID or its number" in shell.run("audit", "proof", "acme", "x").err


def test_exports_and_proofs_are_on_record(shell: Shell, tenant: str) -> None:
    shell.out("audit", "export", "acme", "--out", "export", "--filter", "result=deny")
    shell.out("audit", "proof", "acme", "1")
    events = [json.loads(line)["event"] for line in shell.out("audit", "tail", "acme", "--json").splitlines()]
    told = [(event["type"], event["phase"], event["changes"]) for event in events if event["type"] != "audit.read"]
    assert told[-2:] == [
        ("audit.export", "single", {"query": "result=deny"}),
        ("audit.prove", "single", {"event": "1"}),
    ]


def test_an_export_of_a_log_at_rest_is_anchored_whole(shell: Shell, tenant: str) -> None:
    anchor = shell.folder / ".coatcheck" / "anchors" / f"{tenant}.notes"
    for arguments in ([], ["--filter", "type=key.create"], ["--since", "2020-01-01T00:00:00Z"]):
        shell.out("audit", "export", "acme", "--out", f"export{len(arguments)}{arguments[:1]}", *arguments)
        folder = shell.folder / f"export{len(arguments)}{arguments[:1]}"
        verified = auditor(shell).run("audit", "verify", str(folder), "--key", "key", "--anchor", str(anchor))
        assert verified.code == 0, verified.out
        assert "All of it is anchored." in verified.out


def test_a_log_that_was_changed_in_the_store_is_not_made_genuine_by_its_export(
    shell: Shell, tenant: str, redis_server: RedisServer
) -> None:
    change_bodies(redis_server, tenant, lambda seq, body: body.replace(b"allow", b"alloW") if seq == 5 else body)
    for arguments in (["export", "acme", "--out", "export"], ["proof", "acme", "2"]):
        done = shell.run("audit", *arguments)
        assert (done.code, done.out) == (1, "")
        assert "the log is not the one that was signed" in done.err
    assert auditor(shell).run("audit", "verify", "export", "--key", "key").code == 2


def test_an_export_that_was_cut_and_signed_anew_is_found_by_the_anchor(
    shell: Shell, tenant: str, redis_server: RedisServer
) -> None:
    """By somebody with the root key, behind the gateway's back."""
    shell.out("audit", "export", "acme", "--out", "before")
    anchor = shell.folder / ".coatcheck" / "anchors" / f"{tenant}.notes"
    (shell.folder / "kept").write_bytes(anchor.read_bytes())
    anchor.unlink()
    anchor.with_suffix(".tree").unlink()
    key = f"{{t:{tenant}}}"
    redis_server.command("XTRIM", f"{key}:aud", "MAXLEN", "0")
    with_key = asyncio.run(key_of(shell, redis_server, tenant))
    for number, body in enumerate(write(5, tenant=TenantId(tenant)).bodies, start=1):
        redis_server.command("XADD", f"{key}:aud2", f"0-{number}", "e", body, "m", with_key.mac(body))
    redis_server.command("RENAME", f"{key}:aud2", f"{key}:aud")
    redis_server.command("HSET", f"{key}:meta", "seq", "5")
    redis_server.command("DEL", f"{key}:ckpt")
    shell.out("audit", "export", "acme", "--out", "after")
    assert auditor(shell).run("audit", "verify", "after", "--key", "key").code == 0
    verified = auditor(shell).run("audit", "verify", "after", "--key", "key", "--anchor", "kept")
    assert verified.code == 1
    assert "NOT WHOLE: event" in verified.out


def test_an_export_of_one_tenant_opens_with_no_key_of_another(shell: Shell, tenant: str) -> None:
    shell.out("tenant", "create", "other")
    shell.out("audit", "export", "acme", "--out", "export")
    (shell.folder / "other").write_text(shell.out("audit", "key", "other"))
    verified = auditor(shell).run("audit", "verify", "export", "--key", "other")
    assert verified.code == 1
    assert "is not signed by the given key" in verified.out


def test_a_killed_export_is_finished_by_the_same_command(shell: Shell, tenant: str, redis_server: RedisServer) -> None:
    grow(shell, redis_server, tenant, 30_000)
    with shell.start("audit", "export", "acme", "--out", "export") as process:
        first = shell.folder / "export" / "leaves.part"
        deadline = time.monotonic() + 30
        while not first.exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
        os.kill(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    unfinished = auditor(shell).run("audit", "verify", "export", "--key", "key")
    assert (unfinished.code, "was not finished" in unfinished.err) == (2, True)
    kept = (shell.folder / "export" / "events-000000000001.jsonl").stat().st_mtime_ns
    shell.out("audit", "export", "acme", "--out", "export")
    assert (shell.folder / "export" / "events-000000000001.jsonl").stat().st_mtime_ns == kept
    verified = auditor(shell).run("audit", "verify", "export", "--key", "key")
    assert verified.code == 0, verified.out


async def key_of(shell: Shell, server: RedisServer, tenant: str) -> EventKey:
    store = RedisStore(await Link.open(LinkSettings(parse_target(server.url)), SCRIPTS))
    root = LocalRoot(base64.b64decode(ROOT_KEY))
    try:
        keys = AuditKeyring(store, root.audit_root(), shell.folder / ".coatcheck" / "erasures")
        return event_key(await keys.tenant(TenantId(tenant)))
    finally:
        await store.aclose()


def grow(shell: Shell, server: RedisServer, tenant: str, count: int) -> None:
    """Puts events of other writers into the tenant's log, as the gateway would have."""
    log, with_key = write(count, tenant=TenantId(tenant)), asyncio.run(key_of(shell, server, tenant))
    with redis.Redis(unix_socket_path=str(server.socket_path)) as client:
        key = f"{{t:{tenant}}}"
        seq = int(client.hget(f"{key}:meta", "seq") or 0)
        pipe = client.pipeline(transaction=False)
        for body in log.bodies:
            seq += 1
            pipe.xadd(f"{key}:aud", {"e": body, "m": with_key.mac(body)}, id=f"0-{seq}")
        pipe.hset(f"{key}:meta", "seq", seq)
        pipe.execute()


def test_the_folder_is_for_its_owner_alone(shell: Shell, tenant: str) -> None:
    shell.out("audit", "export", "acme", "--out", "some/export")
    assert Path(shell.folder / "some" / "export").stat().st_mode & 0o077 == 0
