"""What a test knows of the gateway that runs beside it."""

from __future__ import annotations

import json
import urllib.request
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class House:
    """`url`: the base URL for OpenAI clients. `stand_in`: the provider behind it, which remembers what it received."""

    url: str
    stand_in: str
    keys: dict[str, str]

    def ask(self, path: str, body: object = None) -> Any:
        """The stand-in's control door: GET, or POST where there is a body."""
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(f"{self.stand_in}/_stand_in/{path}", data, timeout=10) as answer:  # noqa: S310
            return json.load(answer)

    def received(self) -> list[Any]:
        """What went upstream so far, oldest first."""
        return list(self.ask("requests"))

    def posted(self, path: str) -> list[Any]:
        """The bodies that were posted upstream to `path`, oldest first."""
        return [json.loads(one["body"]) for one in self.received() if (one["method"], one["path"]) == ("POST", path)]

    def check_clean(self, *shown: object) -> None:
        """No raw ID stands in what a client was shown."""
        text = json.dumps(shown, default=str)
        # An ID that the model's code names and that stands nowhere else is passed as the model's own words.
        secrets = [one for one in self.ask("issued") if one["exposure"] == "never" and one["place"] != "code"]
        assert secrets
        leaked = {one["raw"]: one["place"] for one in secrets if one["raw"] in text}
        assert not leaked, leaked
