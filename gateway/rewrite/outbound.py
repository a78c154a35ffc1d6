"""Answers: put opaque IDs where the upstream service wrote its own.

Replacing is by shape, minting is by the table: who plants another's raw ID in metadata, in a tool's schema or in the
answer of their own MCP server must not get it back as an ID of theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gateway.errors import Problem, Reason
from gateway.rewrite.error_text import rebuild
from gateway.rewrite.id_table import IdTable, Minted, Minter, Touched
from gateway.rewrite.sift import Findings, Holder, Key, sift
from gateway.rewrite.splice import Edit, parse, splice
from gateway.surfaces.spec import Spec

__all__ = ["IdTable", "Minted", "Minter", "Touched", "translate_json", "translate_rows"]


def translate_json(body: bytes, spec: Spec, table: IdTable) -> bytes:
    """`body` as the client may read it; `table.new` then holds the records to write first.

    All bytes outside what is replaced stay identical. Raises Problem(UPSTREAM_BAD_ANSWER) for what is no JSON, gives a
    key twice, or is nested too deep to be walked.
    """
    document = parse(body)
    try:
        findings = sift(document, spec)
    except RecursionError:
        raise Problem(Reason.UPSTREAM_BAD_ANSWER) from None
    return splice(body, document, decide(findings, table), table)


def translate_rows(
    rows: Sequence[tuple[bytes, Any]], spec: Spec, table: IdTable
) -> list[tuple[bytes, tuple[Minted, ...]]]:
    """The same for several documents that leave as one, each given with its parsed value: its bytes, and what it minted.

    All are looked through before one is written, for an ID of any may stand in a text of another.
    """
    try:
        found = [sift(document, spec) for _, document in rows]
    except RecursionError:
        raise Problem(Reason.UPSTREAM_BAD_ANSWER) from None
    minted = []
    for findings in found:
        decide(findings, table)
        minted.append(table.take_new())
    return [
        (splice(body, document, decide(findings, table), table), new)
        for (body, document), findings, new in zip(rows, found, minted, strict=True)
    ]


def decide(findings: Findings, table: IdTable) -> list[Edit]:
    """Decide on every place. What is touched by then is replaced everywhere; the edits are for all that is not.

    Minting comes first, so that an ID that also stands in an unknown place before is still one opaque ID.
    """
    edits: list[Edit] = []
    for kind, holder, key, raw, parent in findings.made:
        _rename(edits, holder, key, raw, table.mint(kind, raw, parent), table)
    for kind, holder, key, raw in findings.named:
        _rename(edits, holder, key, raw, table.refer(kind, raw), table)
    for holder, key, raw in findings.loose:
        _rename(edits, holder, key, raw, table.disarm(raw), table)
    for failure in findings.errors:
        edits += rewrite_error(failure, table)
    for text in findings.replayed:
        table.refer_within(text)
    for text in findings.paths:
        table.refer_within(text, name=True)
    for text in findings.labels:
        table.disarm_within(text)
    for holder, key, text in findings.blobs:
        sealed = table.minter.seal_blob(text)
        if sealed != text:
            edits.append(Edit(holder, key, text, sealed))
    for holder, key, text in findings.hashed:
        restored = table.minter.restore_token(text)
        if restored is not None and restored != text:
            edits.append(Edit(holder, key, text, restored))
    edits += [Edit(holder, key, secret, instead) for holder, key, secret, instead in findings.secrets]
    for part, said in findings.parts:
        edits += _realign(part, said, table)
    return edits


def _rename(edits: list[Edit], holder: Holder, key: Key, raw: str, text: str, table: IdTable) -> None:
    if text != raw and raw not in table.everywhere:
        edits.append(Edit(holder, key, raw, text))


def rewrite_error(failure: dict[str, Any], table: IdTable) -> list[Edit]:
    """A failure in an answer or an event: its message rebuilt, the upstream's response headers gone."""
    rebuilt = rebuild(failure, table.quote)
    fields = {"message": rebuilt.message, "type": rebuilt.type, "code": rebuilt.code, "param": rebuilt.param}
    edits = [
        Edit(failure, name, failure[name], new)
        for name, new in fields.items()
        if failure.get(name) is not None and failure[name] != new
    ]
    if failure.get("headers"):
        edits.append(Edit(failure, "headers", failure["headers"], {}))
    return edits


def _realign(part: dict[str, Any], said: str, table: IdTable) -> list[Edit]:
    """Annotation indices of a text in which IDs of another length were put; its log probabilities would spell them."""
    text = part.get(said)
    texts = [text] if isinstance(text, str) else list(text.values()) if isinstance(text, dict) else []
    spans = [span for one in texts if isinstance(one, str) for span in table.spans(one)]
    if not spans:
        return []
    edits = []
    if part.get("logprobs"):
        edits.append(Edit(part, "logprobs", part["logprobs"], [] if isinstance(part["logprobs"], list) else None))
    if not isinstance(text, str):
        return edits
    shifts = [(end, len(new) - (end - start)) for start, end, new in spans]
    annotations = part.get("annotations")
    for annotation in annotations if isinstance(annotations, list) else ():
        edits += realign(annotation, shifts)
    return edits


def realign(annotation: Any, shifts: list[tuple[int, int]]) -> list[Edit]:
    """An annotation's indices after `shifts`: from this position of the old text on, this many characters more."""
    if not isinstance(annotation, dict):
        return []
    cited = annotation.get("url_citation")  # chat's annotations hold theirs in a member
    edits = realign(cited, shifts) if cited is not None else []
    for name in ("start_index", "end_index", "index"):
        old = annotation.get(name)
        if type(old) is int:
            new = old + sum(by for position, by in shifts if position <= old)
            if new != old:
                edits.append(Edit(annotation, name, old, new))
    return edits
