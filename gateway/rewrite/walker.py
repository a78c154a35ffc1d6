"""What is done at a place of a request: a reference is noted, a quotation or token too, a raw shape out of place refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from gateway.errors import Problem, Reason
from gateway.ids.form import Parsed
from gateway.ids.kinds import kind_of_prefix
from gateway.ids.shape import find_raw, is_only_raw, names_tuned
from gateway.rewrite.named import EMBEDDED, Collected, Container, Quotation, Reference, Slot
from gateway.surfaces.missing import missing_for
from gateway.surfaces.route import Route
from gateway.surfaces.spec import BLOB, Id, User

MAX_REFERENCES: Final = 4096
"""Places a request may name objects at; beyond it the request is refused before any look-up."""

SEALED: Final = "encrypted_content"
"""The key of replay blobs. The service reads them in more types of items than the table knows, so wherever no spec says that a
user wrote it, a string under this key must be a blob of the caller's."""

_JSON_ESCAPE: Final = re.compile(r"\\+u00([0-7][0-9A-Fa-f])")
"""A character of ASCII, which all IDs consist of, as JSON may spell it (RFC 8259 section 7), in JSON inside JSON too."""

SCALARS: Final = frozenset({bool, int, float})
"""What holds no string."""

Verify = Callable[[str], Parsed | None]
"""What an opaque ID states, if this deployment wrote it (`DeploymentForm.verify`)."""


class Walker:
    """Collects what a request names, place by place."""

    __slots__ = ("collected", "verify")

    def __init__(self, verify: Verify) -> None:
        self.verify = verify
        self.collected = Collected()

    def query(self, route: Route, query: list[tuple[str, str]]) -> None:
        named: set[str] = set()
        for name, value in query:
            plain = name.removesuffix("[]")
            spec = route.query.get(plain)
            if isinstance(route.query.get(name.partition("[")[0]), User):
                continue
            if spec is None:
                raise Problem(Reason.BAD_PARAMETER, "this path does not take that query parameter", param=plain)
            if isinstance(spec, Id):
                if name in named or name != plain:  # which of them counts would be the next reader's to choose
                    raise Problem(Reason.BAD_PARAMETER, "a parameter is given more than one value", param=plain)
                named.add(name)
                self.reference(spec, value, plain, None, plain, required=True)
            elif is_only_raw(value):
                raise Problem(Reason.RAW_ID_OUT_OF_PLACE, quoted=value, param=plain)

    def reference(
        self, spec: Id, text: str, param: str, container: Container | None, key: str | int, *, required: bool
    ) -> None:
        if spec.passes and text.startswith(spec.passes):
            return
        if not text.startswith(spec.only):
            if find_raw(text) or names_tuned(text) or spec.only in text.lower():
                raise Problem(Reason.NOT_RECORDED, quoted=text, missing=missing_for(spec.kind, spec.missing))
            return
        if len(self.collected.references) >= MAX_REFERENCES:
            raise Problem(Reason.BAD_PARAMETER, f"more than {MAX_REFERENCES} IDs in one request")
        parsed = self.verify(text)
        self.collected.references.append(Reference(spec, text, param, required, parsed, container, key))

    def unknown(self, value: object, param: str, container: Container | None, key: str | int) -> None:
        """Refuses a raw shape anywhere below `value`, and takes what stands under `SEALED` for a blob."""
        if type(value) in SCALARS:
            return
        for holder, at, text in _strings(value, container, key):
            if at == SEALED:
                if holder is None:
                    raise Problem(Reason.BLOB_NOT_YOURS, param=param)
                self.collected.slots.append(Slot(BLOB, text, param, holder, at))
            elif self.is_raw(text):
                raise Problem(Reason.RAW_ID_OUT_OF_PLACE, quoted=text, param=param)

    def is_raw(self, text: str) -> bool:
        """Whether `text` is one raw ID or a list of some: what reads a field that the table does not know may strip or split.
        An ID that this deployment wrote names nothing upstream: what an answer's new field held may be replayed."""
        return is_only_raw(text) and any(self.verify(text[start:end]) is None for start, end in find_raw(text))

    def quotations(self, value: object, container: Container | None, key: str | int) -> None:
        if isinstance(value, str):
            if container is None:
                return
            for text in dict.fromkeys(EMBEDDED.findall(value)):
                parsed = self.verify(text)
                kind = kind_of_prefix(parsed.prefix) if parsed else None
                if parsed and kind:
                    if len(self.collected.quotations) >= MAX_REFERENCES:
                        raise Problem(Reason.BAD_PARAMETER, f"more than {MAX_REFERENCES} IDs in replayed texts")
                    self.collected.quotations.append(Quotation(text, parsed, kind, container, key))
        elif isinstance(value, dict):
            for name, member in value.items():
                self.quotations(member, value, name)
        elif isinstance(value, list):
            for index, element in enumerate(value):
                self.quotations(element, value, index)


class FormWalker(Walker):
    """A form's texts may be read as JSON, or split, by whoever knows a field that the table does not know."""

    __slots__ = ()

    def is_raw(self, text: str) -> bool:
        return self._holds_raw(text) or (
            "\\u" in text and self._holds_raw(_JSON_ESCAPE.sub(lambda found: chr(int(found[1], 16)), text))
        )

    def _holds_raw(self, text: str) -> bool:
        return any(self.verify(text[start:end]) is None for start, end in find_raw(text))


def _strings(
    value: object, container: Container | None, key: str | int
) -> Iterator[tuple[Container | None, str | int, str]]:
    """Every string below `value`, itself included, with what holds it and its key there. The name of a member is held by
    nothing (maps can be keyed by IDs), nor is what stands deeper below `SEALED`, where only a string belongs."""
    if isinstance(value, str):
        yield container, key, value
    elif isinstance(value, dict):
        for name, member in value.items():
            yield None, "", name
            yield from _strings(member, None, SEALED) if key == SEALED else _strings(member, value, name)
    elif isinstance(value, list):
        for index, element in enumerate(value):
            yield from _strings(element, None, SEALED) if key == SEALED else _strings(element, value, index)
