"""Everything that one can try with somebody else's ID, and what came of it."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from openai import APIStatusError, AsyncOpenAI

MODEL: Final = "gpt-4o-mini"
AT_ONCE: Final = 18
"""Attempts of one kind of ID and user in a second: from 20 refusals for one reason on, the gateway answers 429."""

_QUOTED: Final = re.compile(r"('[a-z]+_)[A-Za-z0-9]{8,80}'")
_LONGEST: Final = 60

Call = Callable[[AsyncOpenAI, str], Awaitable[object]]

RESPONSE: Final[dict[str, Call]] = {
    "GET /responses/{id}": lambda client, one: client.responses.retrieve(one),
    "GET /responses/{id}/input_items": lambda client, one: client.responses.input_items.list(one),
    "POST /responses/{id}/cancel": lambda client, one: client.responses.cancel(one),
    "DELETE /responses/{id}": lambda client, one: client.responses.delete(one),
    "POST /responses, previous_response_id": lambda client, one: client.responses.create(
        model=MODEL, input="What was said?", previous_response_id=one
    ),
}
CONVERSATION: Final[dict[str, Call]] = {
    "GET /conversations/{id}": lambda client, one: client.conversations.retrieve(one),
    "GET /conversations/{id}/items": lambda client, one: client.conversations.items.list(one),
    "POST /conversations/{id}": lambda client, one: client.conversations.update(one, metadata={"mine": "now"}),
    "DELETE /conversations/{id}": lambda client, one: client.conversations.delete(one),
    "POST /responses, conversation": lambda client, one: client.responses.create(
        model=MODEL, input="What was said?", conversation=one
    ),
}
ITEM: Final[dict[str, Call]] = {
    "POST /responses, item_reference": lambda client, one: client.responses.create(
        model=MODEL, input=[{"type": "item_reference", "id": one}]
    ),
}


def in_conversation(conversation: str) -> dict[str, Call]:
    """What one can try with an item of `conversation`."""
    return {
        "GET /conversations/{id}/items/{id}": lambda client, one: client.conversations.items.retrieve(
            one, conversation_id=conversation
        ),
        "DELETE /conversations/{id}/items/{id}": lambda client, one: client.conversations.items.delete(
            one, conversation_id=conversation
        ),
    }


@dataclass(frozen=True, slots=True)
class Attempt:
    what: str
    call: Call
    id: str


@dataclass(frozen=True, slots=True)
class Result:
    what: str
    status: int
    message: str
    answer: str
    """The whole error with the quoted ID taken out: what is left must not depend on the ID."""

    @property
    def shown(self) -> str:
        """The message's beginning, its ID shortened."""
        text = _QUOTED.sub(lambda found: f"{found[1]}…'", self.message)
        return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"

    @property
    def is_not_found(self) -> bool:
        """In OpenAI's own words and form."""
        return self.status in (400, 404) and "not found" in self.message


@dataclass(frozen=True, slots=True)
class Ids:
    """The IDs of somebody's objects, or those of others in their places."""

    responses: tuple[str, ...]
    conversation: str
    messages: tuple[str, ...]
    """Items of responses."""
    said: tuple[str, ...]
    """Items of the conversation."""

    def every(self) -> tuple[str, ...]:
        """Each once."""
        return tuple(dict.fromkeys((self.conversation, *self.responses, *self.messages, *self.said)))

    def mapped(self, to: Mapping[str, str]) -> Ids:
        return Ids(
            tuple(to[one] for one in self.responses),
            to[self.conversation],
            tuple(to[one] for one in self.messages),
            tuple(to[one] for one in self.said),
        )

    def attempts(self) -> list[Attempt]:
        """All that can be tried with them."""
        rows = (
            (RESPONSE, self.responses),
            (CONVERSATION, (self.conversation,)),
            (ITEM, tuple(dict.fromkeys((*self.messages, *self.said)))),
            (in_conversation(self.conversation), self.said),
        )
        return [Attempt(what, call, one) for calls, ids in rows for one in ids for what, call in calls.items()]


NEVER_WERE: Final = Ids(("resp_0" + "n" * 32 + "7",), "conv_0" + "n" * 32 + "7", (), ("msg_0" + "n" * 32 + "7",))
"""IDs that nobody ever had."""


async def attempt(client: AsyncOpenAI, one: Attempt) -> Result:
    """Never raises for an answer of the gateway, whatever it is."""
    try:
        got = await one.call(client, one.id)
    except APIStatusError as error:
        body: Any = error.body
        message = body.get("message", "") if isinstance(body, dict) else str(body)
        return Result(one.what, error.status_code, message, _QUOTED.sub("'…'", f"{error.status_code} {body}"))
    return Result(one.what, 200, f"answered with {type(got).__name__}", "200")
