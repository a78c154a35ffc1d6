"""Find in a parsed answer, by the table, every place that may hold an ID. Nothing is decided and nothing written here.

A spec is compiled once into functions, one a node, so that a walk touches only what the table says something about;
what belongs to users and models is not entered at all.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from gateway.ids.kinds import KINDS
from gateway.ids.shape import SHORTEST, find_raw
from gateway.names import Kind
from gateway.rewrite.compiling import once_a_spec
from gateway.surfaces.spec import (
    Blob,
    Each,
    Either,
    Fault,
    File,
    Hashed,
    Id,
    Label,
    Media,
    Obj,
    Plain,
    Role,
    Secret,
    Spec,
    Speech,
    Typed,
    Unknown,
    User,
)

Holder = dict[str, Any] | list[Any]
Key = str | int

TOKENS: Final = frozenset({"call_id", "caller_id", "stream_id", "event_id", "custom_id", "connector_id"})
"""Keys of values that look like IDs and address nothing: they pass wherever they stand."""

_LONGEST_NAME: Final = 64
"""Characters of a key up to which it is remembered."""
_SCALARS: Final = frozenset({int, float, bool, type(None)})
_BESIDE: Final = {kind: row.roots[0] for kind, row in KINDS.items() if len(row.roots) == 1}
"""Children whose root may stand beside them in the same object."""


class Findings:
    """The places, each as the object or array that holds it and its key there."""

    __slots__ = (
        "blobs",
        "errors",
        "hashed",
        "labels",
        "loose",
        "made",
        "named",
        "parts",
        "paths",
        "replayed",
        "secrets",
    )

    def __init__(self) -> None:
        self.made: list[tuple[Kind, Holder, Key, str, str]] = []
        """The service writes an ID of its own; the last is the raw ID of what it belongs to."""
        self.named: list[tuple[Kind, Holder, Key, str]] = []
        """The service refers to something."""
        self.labels: list[str] = []
        """Strings to search for the raw shape."""
        self.paths: list[str] = []
        """Names in which an earlier request may have put raw IDs of its own."""
        self.replayed: list[str] = []
        """Strings in which an earlier request may have put raw IDs of its own."""
        self.loose: list[tuple[Holder, Key, str]] = []
        """Strings under a key that says ID and that no table knows."""
        self.blobs: list[tuple[Holder, Key, str]] = []
        self.hashed: list[tuple[Holder, Key, str]] = []
        self.secrets: list[tuple[Holder, Key, Any, str | None]] = []
        """What nobody may read again, and what stands there instead."""
        self.parts: list[tuple[dict[str, Any], str]] = []
        """Objects whose text (the key; an object of texts, for a choice) has annotations or log probabilities."""
        self.errors: list[dict[str, Any]] = []
        """What the service says of a failure."""


Visit = Callable[[Findings, Holder, Key, Any, str], None]


def sift(value: Any, spec: Spec) -> Findings:
    """The places in `value`, the answer's parsed body."""
    findings = Findings()
    visit = compiled(spec)
    if visit is not None:
        visit(findings, [value], 0, value, "")
    return findings


@once_a_spec
def compiled(spec: Spec) -> Visit | None:  # noqa: PLR0911 - one a kind of spec
    """The walk of `spec`; None where there is nothing to look for."""
    match spec:
        case Speech(restore=True):
            return _replayed
        case User() | Speech():
            return None
        case Plain() | Media():
            return _exempt
        case Label(refers=True):
            return _path
        case Unknown() | Label() | File():
            return _unknown
        case Fault():
            return _fault
        case Secret():
            return _secret(spec)
        case Id():
            return _id(spec)
        case Blob():
            return _blob
        case Hashed():
            return _hashed
        case Each():
            return _each(compiled(spec.of))
        case Obj():
            return _object(spec)
        case Typed():
            return _typed(spec)
        case Either():
            return _either(compiled(spec.text), compiled(spec.structure))


def _exempt(findings: Findings, holder: Holder, key: Key, value: Any, parent: str) -> None:
    if type(value) is dict or type(value) is list:
        _unknown(findings, holder, key, value, parent)


def _replayed(findings: Findings, holder: Holder, key: Key, value: Any, parent: str) -> None:
    """Every string at any depth: inbound, they are sought for opaque IDs just so."""
    if type(value) is str:
        if len(value) >= SHORTEST:
            findings.replayed.append(value)
    elif type(value) is dict or type(value) is list:
        for member in value.values() if type(value) is dict else value:
            _replayed(findings, holder, key, member, parent)


def _path(findings: Findings, holder: Holder, key: Key, value: Any, parent: str) -> None:
    if type(value) is str:
        findings.paths.append(value)
    else:
        _unknown(findings, holder, key, value, parent)


def _blob(findings: Findings, holder: Holder, key: Key, value: Any, parent: str) -> None:
    if type(value) is str and value:
        findings.blobs.append((holder, key, value))
    else:
        _exempt(findings, holder, key, value, parent)


def _secret(spec: Secret) -> Visit:
    public, instead = spec.public, spec.instead

    def visit(findings: Findings, holder: Holder, key: Key, value: Any, parent: str) -> None:
        if value is not None and not (type(value) is str and value in public):
            findings.secrets.append((holder, key, value, instead))

    return visit


def _hashed(findings: Findings, holder: Holder, key: Key, value: Any, parent: str) -> None:
    if type(value) is str:
        findings.hashed.append((holder, key, value))
    else:
        _exempt(findings, holder, key, value, parent)


def _id(spec: Id) -> Visit:
    kind, passes, only = spec.kind, spec.passes, spec.only
    makes = spec.role in (Role.OWN, Role.MADE)

    def visit(findings: Findings, holder: Holder, key: Key, value: Any, parent: str) -> None:
        if type(value) is not str:
            _exempt(findings, holder, key, value, parent)
        elif not value or (passes and value.startswith(passes)) or not value.startswith(only):
            return
        elif makes:
            findings.made.append((kind, holder, key, value, parent))
        else:
            findings.named.append((kind, holder, key, value))

    return visit


def _each(of: Visit | None) -> Visit:
    def visit(findings: Findings, holder: Holder, key: Key, value: Any, parent: str) -> None:
        if type(value) is not list:
            _unknown(findings, holder, key, value, parent)
        elif of is not None:
            for index, element in enumerate(value):
                of(findings, value, index, element, parent)

    return visit


def _either(text: Visit | None, structure: Visit | None) -> Visit:
    def visit(findings: Findings, holder: Holder, key: Key, value: Any, parent: str) -> None:
        chosen = text if type(value) is str else structure
        if chosen is not None:
            chosen(findings, holder, key, value, parent)

    return visit


def _typed(spec: Typed) -> Visit:
    table = {tag: _object(of) for tag, of in spec.table.items()}
    other = _object(spec.other)
    absent = _object(spec.absent) if spec.absent else other
    tag_key = spec.key

    def visit(findings: Findings, holder: Holder, key: Key, value: Any, parent: str) -> None:
        if type(value) is not dict:
            _unknown(findings, holder, key, value, parent)
            return
        tag = value.get(tag_key)
        chosen = absent if tag is None else table.get(tag, other) if type(tag) is str else other
        chosen(findings, holder, key, value, parent)

    return visit


def _object(spec: Obj) -> Visit:
    fields = {name: compiled(of) for name, of in spec.fields.items()}
    rest = _unknown_member if isinstance(spec.rest, Unknown) else compiled(spec.rest)
    own = next((n for n, of in spec.fields.items() if isinstance(of, Id) and of.role is Role.OWN), None)
    own_visit = fields[own] if own else None
    if own:
        fields[own] = None
    for name, of in spec.fields.items():
        if isinstance(of, Id) and (root := _BESIDE.get(of.kind)) and name != own:
            beside = next((n for n, o in spec.fields.items() if isinstance(o, Id) and o.kind is root), None)
            fields[name] = _child(fields[name], beside) if beside else fields[name]
    said = next((n for n in ("text", "delta", "content") if isinstance(spec.fields.get(n), User | Speech)), "")
    if "message" in spec.fields and "logprobs" in spec.fields:
        said = "message"
    fails = "error" not in fields or fields["error"] is not None

    def visit(findings: Findings, holder: Holder, key: Key, value: Any, parent: str) -> None:
        if type(value) is not dict:
            _unknown(findings, holder, key, value, parent)
            return
        if own_visit is not None and own is not None and own in value:
            own_visit(findings, value, own, value[own], parent)
            if type(value[own]) is str:
                parent = value[own] or parent
        for name, member in value.items():
            if type(member) in _SCALARS and len(name) < SHORTEST:
                continue
            of = fields.get(name, rest)
            if of is _unknown_member:
                # A short word like `completed` can be nothing but the value of a key that says ID.
                if type(member) is not str or len(member) >= SHORTEST or len(name) >= SHORTEST or says_id(name):
                    _unknown_member(findings, value, name, member, parent)
            elif of is not None and (of is not _exempt or type(member) is not str):
                of(findings, value, name, member, parent)
        if said and (value.get("annotations") or value.get("logprobs")):
            findings.parts.append((value, said))
        if fails and "error" in value:
            _failure(findings, value["error"])

    return visit


def _child(visit: Visit | None, beside: str) -> Visit | None:
    if visit is None:
        return None

    def child(findings: Findings, holder: Holder, key: Key, value: Any, parent: str) -> None:
        root = holder.get(beside) if isinstance(holder, dict) else None
        visit(findings, holder, key, value, root if type(root) is str else parent)

    return child


def _fault(findings: Findings, holder: Holder, key: Key, value: Any, parent: str) -> None:
    _unknown(findings, holder, key, value, parent)
    _failure(findings, value)


def _failure(findings: Findings, value: Any) -> None:
    if type(value) is dict and "message" in value:
        findings.errors.append(value)


def _unknown(findings: Findings, holder: Holder, key: Key, value: Any, parent: str) -> None:
    _loose(findings, holder, key, value, key if type(key) is str else "")


def _unknown_member(findings: Findings, holder: Holder, key: Key, value: Any, parent: str) -> None:
    if len(key) >= SHORTEST and not _is_harmless(key):  # type: ignore[arg-type]  # a member's key is a string
        findings.labels.append(key)  # type: ignore[arg-type]
    if type(value) not in _SCALARS:
        _loose(findings, holder, key, value, key)  # type: ignore[arg-type]


def _loose(findings: Findings, holder: Holder, key: Key, value: Any, name: str) -> None:
    """`name`: the nearest key above, which an array's elements share."""
    if type(value) is str:
        if says_id(name):
            if value:
                findings.loose.append((holder, key, value))
        elif len(value) >= SHORTEST and name not in TOKENS:
            findings.labels.append(value)
    elif type(value) is dict:
        for inner, member in value.items():
            if type(member) not in _SCALARS or len(inner) >= SHORTEST:
                _unknown_member(findings, value, inner, member, "")
        _failure(findings, value.get("error"))
    elif type(value) is list:
        for index, element in enumerate(value):
            _loose(findings, value, index, element, name)


@lru_cache(maxsize=4096)
def says_id(name: str) -> bool:
    """Whether a string under this key is taken for an ID, whatever it looks like."""
    return (name in ("id", "created_by") or name.endswith(("_id", "_ids"))) and name not in TOKENS


def _is_harmless(name: str) -> bool:
    """Whether a key has nothing of raw shape in it. Keys like `input_tokens_details` come in every answer."""
    return len(name) < _LONGEST_NAME and _has_no_shape(name)


@lru_cache(maxsize=1024)
def _has_no_shape(name: str) -> bool:
    return not find_raw(name)
