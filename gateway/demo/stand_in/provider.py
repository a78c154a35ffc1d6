"""The state of the stand-in: what is stored, what was received, what was handed out, and how it is told to behave."""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from gateway.demo.stand_in import failures
from gateway.demo.stand_in.blobs import Sealer
from gateway.demo.stand_in.outputs import Json, Output, shown_by
from gateway.demo.stand_in.raw_ids import BASE62, IdStyle, Issued, RawIds
from gateway.demo.stand_in.scripts import Script, parse
from gateway.demo.stand_in.webhooks import Sender, Sent

CANARY_WORDS = parse("unknown_events, quote, stranger")
"""What a canary adds to every script."""

MODELS = ("gpt-4o-mini", "gpt-4.1", "gpt-5", "gpt-5.6", "o4-mini")
"""Models that everybody may use; the provider adds fine-tuned ones, whose names hold organization and job."""


@dataclass(frozen=True, slots=True)
class Options:
    """How the stand-in behaves from its start. Scripts change single answers; see `scripts.py`."""

    api_key: str | None = None  # None: any key that is not empty
    id_style: IdStyle = IdStyle.HEX50
    canary: bool = False  # fresh raw IDs in every place of every answer
    script: str = ""  # words that apply to every request
    background_polls: int = 2  # how many times a background response is read before it is completed
    chained_input_items: bool = True  # input_items shows what came with previous_response_id too
    record: bool = True  # keep what was received and issued; for long runs say no
    seed: int | None = None


@dataclass(slots=True)
class Received:
    """One request as it arrived, and what became of it. Times are `time.monotonic()` seconds."""

    method: str
    path: str  # as sent, still percent-encoded
    query: str
    headers: list[tuple[str, str]]
    body: bytes = b""
    status: int = 0
    bytes_sent: int = 0
    finished_at: float | None = None
    disconnected_at: float | None = None  # when the client was seen to have left before the end
    close_code: int | None = None  # with which it closed a socket

    def json(self) -> Any:
        return json.loads(self.body)

    def header(self, name: str) -> str | None:
        """The first value of a header, whose name is given in lower case."""
        return next((value for key, value in self.headers if key == name), None)


@dataclass(slots=True)
class StoredResponse:
    """A response with all that its later readers need. `body` is how it ends; `status` is how far it is."""

    body: Json
    status: str
    outputs: list[Output]
    input_items: list[Json]  # what input_items lists, oldest first
    new_items: list[Json]
    history: list[Json]  # what a continuation sees: the context and the output
    lineage: str
    script: Script
    stored: bool = True
    background: bool = False
    conversation: str | None = None
    polls: int = 0

    @property
    def id(self) -> str:
        return str(self.body["id"])


@dataclass(slots=True)
class Conversation:
    id: str
    lineage: str
    created_at: int
    metadata: Any
    items: list[Json] = field(default_factory=list)
    locked: bool = False

    def public(self) -> Json:
        return {
            "id": self.id,
            "object": "conversation",
            "created_at": self.created_at,
            "metadata": self.metadata,
        }


@dataclass(slots=True)
class StoredChat:
    """A chat completion with `store: true`, and the messages that it answers."""

    body: Json
    messages: list[Json]

    @property
    def id(self) -> str:
        return str(self.body["id"])


@dataclass(slots=True)
class StoredFile:
    body: Json
    data: bytes
    media_type: str = "application/octet-stream"


@dataclass(slots=True)
class StoredStore:
    """A vector store, its files by their IDs, and the files of each batch."""

    body: Json
    files: dict[str, Json] = field(default_factory=dict)
    batches: dict[str, list[Json]] = field(default_factory=dict)


@dataclass(slots=True)
class StoredContainer:
    body: Json
    files: dict[str, StoredFile] = field(default_factory=dict)


@dataclass(slots=True)
class StoredSkill:
    """A skill and its versions, by their numbers."""

    body: Json
    versions: dict[str, StoredFile] = field(default_factory=dict)


@dataclass(slots=True)
class StoredJob:
    """A fine-tuning job, what has happened to it, and how often it was read."""

    body: Json
    events: list[Json] = field(default_factory=list)
    checkpoints: list[Json] = field(default_factory=list)
    polls: int = 0


@dataclass(slots=True)
class StoredUpload:
    body: Json
    parts: dict[str, bytes] = field(default_factory=dict)


@dataclass(slots=True)
class KnownItem:
    """A stored item, whose it is, and the reasoning item that it may not be replayed without."""

    item: Json
    root: str
    requires: str | None = None


class Provider:
    """What `app.state.provider` is. Tests read `received`, `issued`, and set `script` and `next_scripts`."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.webhooks: Sender | None = None
        self.reset()

    def reset(self) -> None:
        """Forgets everything, IDs included, and goes back to the options."""
        self.ids = RawIds(self.options.id_style, seed=self.options.seed, keep=self.options.record)
        self.sealer = Sealer()
        self.received: list[Received] = []
        self.responses: dict[str, StoredResponse] = {}
        self.conversations: dict[str, Conversation] = {}
        self.chats: dict[str, StoredChat] = {}
        self.files: dict[str, StoredFile] = {}
        self.uploads: dict[str, StoredUpload] = {}
        self.batches: dict[str, Json] = {}
        self.vector_stores: dict[str, StoredStore] = {}
        self.containers: dict[str, StoredContainer] = {}
        self.skills: dict[str, StoredSkill] = {}
        self.jobs: dict[str, StoredJob] = {}
        self.items: dict[str, KnownItem] = {}
        self.hidden: dict[str, dict[str, Json]] = {}
        self.send_webhooks(None)
        self.set_script(self.options.script)
        self.next_scripts: deque[Script] = deque()
        self.organization = self.ids.new("org-", place="account")
        self.project = self.ids.new("proj_", place="account")
        job = self.ids.text(BASE62, 8)
        tuned = f"ft:gpt-4o-mini-2024-07-18:{self.organization}:coats:{job}"
        self.models = [*MODELS, self.ids.note(tuned, "model"), self.ids.note(f"{tuned}:ckpt-step-200", "model")]

    @property
    def issued(self) -> dict[str, Issued]:
        """Every raw ID that was handed out or planted, by its text."""
        return self.ids.issued

    def set_script(self, words: str) -> None:
        """Words that apply to every request from now on."""
        self.script: Script = parse(words)
        if self.options.canary:
            self.script += CANARY_WORDS

    def next_answer(self, words: str) -> None:
        """Words for the next request under /v1 alone; several calls make a queue."""
        self.next_scripts.append(parse(words))

    def send_webhooks(self, sender: Sender | None) -> None:
        """Where the project's webhooks go from now on."""
        if self.webhooks is not None:
            self.webhooks.close()
        self.webhooks = sender

    def announce(self, type_: str, raw: str) -> Sent | None:
        """Tells the project's endpoint what became of an object, if there is one."""
        if self.webhooks is None:
            return None
        return self.webhooks.announce(lambda: self.ids.new("evt_", place="webhook.id"), type_, {"id": raw})

    def new_attachment(self, prefix: str) -> str:
        """A raw ID that exists and that requests may name: `file-`, `vs_`, `cntr_`, `skill_`, `pmpt_` or `tunnel_`."""
        return self.ids.new(prefix, place="made for a test")

    def response(self, raw: str) -> StoredResponse:
        found = self.responses.get(raw)
        if found is None or not found.stored:
            raise failures.response_not_found(raw)
        return found

    def conversation(self, raw: str) -> Conversation:
        found = self.conversations.get(raw)
        if found is None:
            raise failures.conversation_not_found(raw)
        return found

    def chat(self, raw: str) -> StoredChat:
        found = self.chats.get(raw)
        if found is None:
            raise failures.chat_not_found(raw)
        return found

    def remember(self, items: list[Json], root: str) -> None:
        """Makes items available to references. What follows a reasoning item cannot be replayed without it."""
        reasoning: str | None = None
        for item in items:
            kind = item.get("type")
            self.items.setdefault(str(item["id"]), KnownItem(item, root, reasoning))
            reasoning = str(item["id"]) if kind == "reasoning" else None

    def reveal(self, items: list[Json], include: list[str]) -> list[Json]:
        """The items with the fields that `include` asks for and their creation did not."""
        return [{**item, **shown_by(self.hidden.get(str(item["id"]), {}), include)} for item in items]

    def forget(self, root: str) -> None:
        """Removes the items that belong to a deleted response or conversation."""
        self.items = {raw: known for raw, known in self.items.items() if known.root != root}

    def finish(self, stored: StoredResponse) -> None:
        """Brings a response to its end: it can be referred to, and its conversation has grown. Does so once."""
        if stored.status == stored.body["status"]:
            return
        stored.status = str(stored.body["status"])
        if stored.background:
            self.announce(f"response.{stored.status}", stored.id)
        new = [*stored.new_items, *stored.body["output"]]
        if stored.conversation is not None:
            self.release(stored)
            conversation = self.conversations.get(stored.conversation)
            if conversation is not None:
                conversation.items += new
                self.remember(new, conversation.id)
        elif stored.stored:
            self.remember(new, stored.id)

    def abandon(self, stored: StoredResponse) -> None:
        """The client left: a foreground response is cancelled, a background one goes on."""
        if not stored.background and stored.status != stored.body["status"]:
            stored.status = "cancelled"
            self.release(stored)

    def release(self, stored: StoredResponse) -> None:
        """Unlocks the conversation."""
        conversation = self.conversations.get(stored.conversation or "")
        if conversation is not None:
            conversation.locked = False
