"""The page on the format says what the code does: its example, its names, its limits."""

from __future__ import annotations

import base64
import re
import textwrap
from pathlib import Path

from gateway.audit import layout
from gateway.audit.checkpoint import MAX_NOTE_CHARACTERS, VerifierKey, open_note
from gateway.audit.event import MAX_BYTES, EventType
from gateway.audit.segment import check_event
from gateway.audit.tree import consistency, inclusion, leaf, root
from gateway.names import TenantId

PAGE = (Path(__file__).parent.parent.parent / "docs" / "audit-format.md").read_text()
TENANT = TenantId("aaaabbbbccccdddd")


def shown(name: str) -> list[str]:
    return re.findall(rf"^    {name} +(.*)$", PAGE, re.MULTILINE)


def hashes(text: str) -> tuple[bytes, ...]:
    return tuple(base64.b64decode(one) for one in text.split(": ")[1].split(" "))


def test_the_example_is_true() -> None:
    example = PAGE[PAGE.index("## 11 An example") :]
    (key,) = shown("key")
    bodies = [body.encode() for body in shown("event") if '"wseq"' in body]
    leaves = [leaf(TENANT, seq, body) for seq, body in enumerate(bodies, start=1)]
    assert [base64.b64encode(one).decode() for one in leaves] == shown("leaf")[-3:]
    for seq, body in enumerate(bodies, start=1):
        check_event(seq, body, TENANT)
    note = textwrap.dedent(example[example.index("\n    coatcheck/") + 1 :])
    checkpoint = open_note(note, VerifierKey.parse(key))
    assert checkpoint is not None
    assert (checkpoint.tenant, checkpoint.size, checkpoint.root) == (TENANT, 3, root(leaves))
    assert hashes(shown("inclusion")[0]) == inclusion(leaves, 1, 3)
    assert hashes(shown("consistency")[0]) == consistency(leaves, 1, 3)


def test_names_and_limits_are_those_of_the_code() -> None:
    for name in (layout.FORMAT, layout.MANIFEST, layout.SIGNATURE, layout.HEAD, layout.EARLIER, layout.STATEMENT):
        assert f"`{name}`" in PAGE
    for number in (MAX_BYTES, MAX_NOTE_CHARACTERS, layout.MAX_LINE_BYTES):
        assert f"{number:,}" in PAGE
    assert f"`{EventType.WRITER_OPENED}`" in PAGE
    assert f"`{EventType.LOG_RESEALED}`" in PAGE
    manifest = layout.Manifest("coatcheck/0123456789abcdef/aaaabbbbccccdddd", False, 1, 0, 0, 0).to_bytes().decode()
    for name in re.findall(r'"(\w+)":', manifest):
        assert f"`{name}`" in PAGE
