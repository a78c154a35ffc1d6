"""Files to train on (https://platform.openai.com/docs/guides/fine-tuning): an example a line, in one of the forms that the
service learns from. An example holds what is learnt and names nothing: what it named would be read, whoever's it is."""

from __future__ import annotations

from typing import Final

from gateway.surfaces import chat
from gateway.surfaces.route import Body, Route
from gateway.surfaces.spec import PLAIN, USER, Each, Obj, Spec

PURPOSE: Final = "fine-tune"
"""Of a file whose lines are examples."""

_CREATE: Final = next(route.request for route in chat.ROUTES if route.action == "chat.completions.create")
assert isinstance(_CREATE, Obj)  # noqa: S101 - the table's own

_CHAT: Final[dict[str, Spec]] = {
    "messages": _CREATE.fields["messages"],
    "tools": Each(chat.TOOL),
    "functions": USER,
    "parallel_tool_calls": PLAIN,
}

EXAMPLE: Final = Route(
    "files.create",
    "POST",
    "/files",
    "one line of a file to train on",
    Obj({}),
    Body.JSON,
    Obj(
        {
            **_CHAT,
            "input": Obj(_CHAT),
            "preferred_output": _CHAT["messages"],
            "non_preferred_output": _CHAT["messages"],
            "prompt": USER,
            "completion": USER,
        }
    ),
)
"""What a line may hold, as the body of a request."""
