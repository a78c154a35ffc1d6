"""The events of one stream or socket, as JSON: translated one by one, with the texts that run through them.

Every event type is treated alike, whether the table knows it or not.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

import orjson

from gateway.errors import Problem, Reason
from gateway.rewrite.compiling import once_a_spec
from gateway.rewrite.id_table import SHORTEST, IdTable
from gateway.rewrite.outbound import decide, realign
from gateway.rewrite.runs import choice_of, choices, only, pieces
from gateway.rewrite.sift import sift
from gateway.rewrite.speech import Openings, Utterance
from gateway.rewrite.splice import Edit, hides, parse, splice
from gateway.surfaces.spec import UNKNOWN, Id, Media, Obj, Plain, Spec, Speech, Typed, User

TERMINAL: Final = frozenset(
    {
        "response.completed", "response.incomplete", "response.failed", "response.cancelled", "image_generation.completed",
        "image_edit.completed", "speech.audio.done", "transcript.text.done", "error",
    }
)  # fmt: skip
"""Types of a stream's last event. A stream whose events have no type ends in `[DONE]`, or in an error."""

_DELTA: Final = ".delta"
_ANNOTATION: Final = ".annotation.added"
_PLAIN_KEYS: Final = frozenset(
    {
        "type", "sequence_number", "item_id", "output_index", "content_index", "summary_index", "delta", "logprobs",
        "obfuscation",
    }
)  # fmt: skip

Place = tuple[Any, ...]


class Translated(NamedTuple):
    """One event as it leaves. `before`: type and JSON of events that the gateway adds in front of it."""

    data: bytes
    before: tuple[tuple[str, bytes], ...] = ()
    terminal: bool = False
    failed: bool = False
    """The upstream says that it failed."""


class EventTranslator:
    """One stream's events, in order. `spec`: what an event's JSON holds."""

    def __init__(self, spec: Spec, table: IdTable) -> None:
        self._spec = spec
        self._table = table
        self.openings = Openings(table)
        self._plain = _plain_types(spec)
        self._utterances: dict[Place, Utterance] = {}
        self.holding: dict[Place, Utterance] = {}
        """The texts of which some is held back."""

    def hear_plain(self, data: bytes, event: Any) -> str | None:
        """The text that leaves of a plain delta: one whose bytes hold nothing to look at but its item's ID, which is
        touched, and its text. None for every other event, and then nothing has happened yet.

        Where the answer equals `event["delta"]`, replacing the item's ID is all there is to do.
        """
        if type(event) is not dict or event.get("type") not in self._plain or not event.keys() <= _PLAIN_KEYS:
            return None
        item, delta, padding = event.get("item_id"), event.get("delta"), event.get("obfuscation", "")
        if type(delta) is not str or type(padding) is not str or event.get("logprobs"):
            return None
        if type(item) is not str or item not in self._table.everywhere:
            return None
        # As many quotation marks as these strings have: no key is there twice, and no other value is a string.
        strings = len(event) + (4 if "obfuscation" in event else 3)
        if data.count(b'"') != 2 * strings + delta.count('"') or hides(data):
            return None
        if len(padding) >= SHORTEST and self._table.spans(padding):
            return None
        try:
            return self._hear(_place(event["type"], event), event)
        except Problem:  # an index that is no scalar: refused where every event is read
            return None

    def lane(self, data: bytes) -> tuple[Place, Utterance] | None:
        """The text that the delta in `data` belongs to, if the delta may be heard without reading more of it than its
        text: of a type that the table knows, and of an item whose ID is touched."""
        event = parse(data)
        if event["type"] not in self._plain or event["item_id"] not in self._table.everywhere:
            return None
        place = _place(event["type"], event)
        return place, self._utterances.setdefault(place, Utterance())

    def hold(self, place: Place, utterance: Utterance, event: dict[str, Any]) -> None:
        """Remember, or forget, that some of the text is held back since `event`."""
        if utterance.held:
            utterance.last = event
            self.holding[place] = utterance
        elif self.holding:
            self.holding.pop(place, None)

    def translate(self, data: bytes, event: Any = None, *, name: str = "", heard: str | None = None) -> Translated:
        """Any event. `event`: `data` parsed, if it was; `name`: what the frame calls it; `heard`: what `hear_plain`
        gave. Raises Problem(UPSTREAM_BAD_ANSWER)."""
        if event is None:
            event = parse(data)
        try:
            findings = sift(event, self._spec)
        except RecursionError:
            raise Problem(Reason.UPSTREAM_BAD_ANSWER) from None
        if not isinstance(event, dict):
            return Translated(splice(data, event, decide(findings, self._table), self._table))
        kind = event.get("type")
        kind = kind if isinstance(kind, str) else name
        if "error" in (kind, name) and "message" in event:
            findings.errors.append(event)
        edits = decide(findings, self._table)
        chunk = isinstance(self._spec, Obj)
        ended = self._hear_runs(event, edits) if chunk else ()
        if heard is None and self._speaks(kind, event):
            heard = self._hear(_place(kind, event), event)
        if heard is not None and heard != event["delta"]:
            edits.append(Edit(event, "delta", event["delta"], heard))
            if event.get("logprobs"):
                edits.append(Edit(event, "logprobs", event["logprobs"], []))
        if kind.endswith(_DELTA) and type(event.get("delta")) is dict:
            edits += self._hear_members(kind, event)
        if kind.endswith(_ANNOTATION):
            edits += realign(event.get("annotation"), self._shifts(event))
        failed = "error" in (kind, name) or ("type" not in event and isinstance(event.get("error"), dict))
        terminal = failed or kind in TERMINAL or name in TERMINAL
        before = self.release() if terminal else self._release_for(kind, event) if self.holding and not chunk else ()
        before = ended + before
        return Translated(splice(data, event, edits, self._table), before, terminal, failed)

    def forget(self, raws: Collection[str]) -> None:
        """What the table has forgotten: texts of these items go on as new ones, except where some of them is held back."""
        self.openings = Openings(self._table)
        for place in [place for place in self._utterances if place[1] in raws and place not in self.holding]:
            del self._utterances[place]

    def release(self) -> tuple[tuple[str, bytes], ...]:
        """Everything that is still held back, as events: for the end of the stream."""
        return tuple(self._released(place) for place in list(self.holding))

    def _speaks(self, kind: str, event: dict[str, Any]) -> bool:
        if not kind.endswith(_DELTA) or type(event.get("delta")) is not str:
            return False
        return not isinstance(_spec_of(self._spec, kind, "delta"), Media | Plain)

    def _hear(self, place: Place, event: dict[str, Any]) -> str:
        utterance = self._utterances.get(place)
        if utterance is None:
            utterance = self._utterances[place] = Utterance()
        heard = utterance.hear(event["delta"], self.openings)
        self.hold(place, utterance, event)
        return heard

    def _hear_members(self, kind: str, event: dict[str, Any]) -> list[Edit]:
        """A delta of several texts (`stdout` and `stderr` of a command): each is heard by itself."""
        whole, delta, edits = _place(kind, event), event["delta"], []
        for name, piece in delta.items():
            if type(piece) is str:
                place = (*whole, name)
                utterance = self._utterances.setdefault(place, Utterance())
                heard = utterance.hear(piece, self.openings)
                self.hold(place, utterance, event)
                if heard != piece:
                    edits.append(Edit(delta, name, piece, heard))
        return edits

    def _hear_runs(self, event: dict[str, Any], edits: list[Edit]) -> tuple[tuple[str, bytes], ...]:
        """The pieces of running texts in a chunk; what of them is replaced is added to `edits`. Gives what leaves before
        it: the rest of the texts of a choice that it finishes."""
        found = choices(event)
        finished = {path for path, choice in found.items() if choice.get("finish_reason") is not None}
        changed = set()
        for piece in pieces(event, self._spec):
            place = ("", *piece.path)
            utterance = self._utterances.setdefault(place, Utterance())
            heard = utterance.hear(piece.text, self.openings)
            if choice_of(piece.path) in finished:
                heard += utterance.release(self._table)
            self.hold(place, utterance, event)
            if heard != piece.text:
                edits.append(Edit(piece.holder, piece.key, piece.text, heard))
                changed.add(choice_of(piece.path))
        for path in changed:
            if found[path].get("logprobs"):
                edits.append(Edit(found[path], "logprobs", found[path]["logprobs"], None))
        due = [place for place in self.holding if place[0] == "" and choice_of(place[1:]) in finished]
        return tuple(self._released(place) for place in due)

    def _release_for(self, kind: str, event: dict[str, Any]) -> tuple[tuple[str, bytes], ...]:
        """What this event of the same item ends. Another delta does not, nor does an annotation, which may come in the
        midst of a text."""
        if kind.endswith((_DELTA, _ANNOTATION)):
            return ()
        item = event.get("item_id")
        if item is None and isinstance(event.get("item"), dict):
            item = event["item"].get("id")
        index = event.get("output_index")
        due = [
            place
            for place in self.holding
            if (
                place[1] == item
                if item is not None and place[1] is not None
                else index is not None and place[2] == index
            )
        ]
        return tuple(self._released(place) for place in due)

    def _released(self, place: Place) -> tuple[str, bytes]:
        utterance = self.holding.pop(place)
        if place[0] == "":
            chunk = only(utterance.last, place[1:], utterance.release(self._table))
            utterance.last = {}
            return "", splice(orjson.dumps(chunk), chunk, decide(sift(chunk, self._spec), self._table), self._table)
        event = {name: value for name, value in utterance.last.items() if name != "obfuscation"}
        text = utterance.release(self._table)
        if isinstance(event["delta"], dict):
            event["delta"] = {
                name: text if name == place[-1] else "" for name, piece in event["delta"].items() if type(piece) is str
            }
        else:
            event["delta"] = text
        if "logprobs" in event:
            event["logprobs"] = []
        utterance.last = {}
        edits = decide(sift(event, self._spec), self._table)
        return str(place[0]), splice(orjson.dumps(event), event, edits, self._table)

    def _shifts(self, event: dict[str, Any]) -> list[tuple[int, int]]:
        where = (event.get("item_id"), event.get("output_index"), event.get("content_index"))
        spoken = [said for place, said in self._utterances.items() if place[1:4] == where]
        return [shift for said in spoken for shift in said.shifts]


def _place(kind: str, event: dict[str, Any]) -> Place:
    """What tells one text from another. Raises Problem(UPSTREAM_BAD_ANSWER) where an index is no scalar."""
    names = ("item_id", "output_index", "content_index", "summary_index")
    place = (kind, *(event.get(name) for name in names))
    if "command_index" in event:
        place = (*place, event["command_index"])
    if any(isinstance(part, dict | list) for part in place):
        raise Problem(Reason.UPSTREAM_BAD_ANSWER)
    return place


def _spec_of(spec: Spec, kind: str, field: str) -> Spec:
    chosen = spec.table.get(kind, spec.other) if isinstance(spec, Typed) else spec
    return chosen.fields.get(field, chosen.rest) if isinstance(chosen, Obj) else UNKNOWN


@once_a_spec
def _plain_types(spec: Spec) -> frozenset[str]:
    """Types of events that hold one item's ID and a piece of its text."""
    table: Mapping[str, Obj] = spec.table if isinstance(spec, Typed) and spec.key == "type" else {}
    return frozenset(
        kind
        for kind, of in table.items()
        if kind.endswith(_DELTA)
        and isinstance(of.fields.get("delta"), User | Speech)
        and isinstance(of.fields.get("item_id"), Id)
    )
