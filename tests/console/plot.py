"""Events as a gateway writes them, made up: people who work, one who tries what is not theirs, and texts that want to deceive."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

from gateway.audit.event import (
    SYSTEM,
    Actor,
    Change,
    Event,
    EventType,
    Outcome,
    Phase,
    RequestFacts,
    Result,
    Target,
)
from gateway.audit.persons import NETWORK, person, sealed
from gateway.ids.encoding import ALPHABET
from gateway.ids.keys import AuditKeys, Versions
from gateway.names import Owner, Principal, PrincipalKind, TenantId

HOSTILE = (
    "<script>alert(1)</script>",
    "gpt-\u202e5-live\u202c",
    '"><img src=x onerror=alert(1)>',
    "zero\u200bwidth\u2060joiner",
    "tab\there\x1b[31mred\x07",
    "Z\u0335\u0321\u0322\u0327a\u0335l\u0335g\u0335o\u0301\u0302\u0303\u0304",
    "a" * 127,
    "{{ 7 * 7 }}{% raw %}",
    '=HYPERLINK("http://evil.example","x")',
    "\u3164\u2800blank",
)


class Plot:
    """The same events for the same seed."""

    def __init__(self, tenant: TenantId, keys: Versions[AuditKeys], now_us: int, seed: int = 7) -> None:
        self.tenant = tenant
        self._keys = keys
        self._now_us = now_us
        self._random = random.Random(seed)
        self.conversation = self.opaque("conv_")

    def opaque(self, prefix: str) -> str:
        return prefix + "".join(self._random.choices(ALPHABET, k=34))

    def actor(self, subject: str, kind: PrincipalKind = PrincipalKind.USER, auth: str = "api_key") -> Actor:
        owner = Owner("local" if auth == "api_key" else "https://id.example.com", subject)
        principal = Principal(self.tenant, owner, kind, auth)
        return person(self._keys.newest, self._keys.current, principal)

    def request(
        self,
        actor: Actor,
        action: str,
        route: str,
        ago_s: float,
        *,
        named: tuple[Target, ...] = (),
        made: tuple[Target, ...] = (),
        ending: Outcome | None = None,
        model: str = "",
    ) -> Iterator[Event]:
        """An intent and its outcome."""
        method = {"create": "POST", "delete": "DELETE"}.get(action.rpartition(".")[2], "GET")
        network = sealed(
            self._keys.newest, self._keys.current, self.tenant, NETWORK, f"192.0.2.{self._random.randrange(1, 9)}"
        )
        facts = RequestFacts(
            f"req_{self._random.getrandbits(128):032x}",
            method,
            route,
            network,
            f"{self._random.getrandbits(96):024x}",
            412,
            model=model,
        )
        intent = Event(self.tenant, int(self._now_us - ago_s * 1e6), action, Phase.INTENT, actor, facts, None, named)
        yield intent
        took = self._random.randrange(180_000, 4_000_000)
        done = replace(facts, bytes_out=2048, duration_us=took, tokens_in=212, tokens_out=87)
        yield replace(
            intent,
            ts_us=intent.ts_us + took,
            phase=Phase.OUTCOME,
            request=done,
            outcome=ending or Outcome(Result.ALLOW, "", 200),
            targets=made or named,
        )

    def story(self) -> Iterator[Event]:
        """A conversation from its beginning to its end."""
        conversation = (Target("conversation", self.conversation),)
        alice, carol = self.actor("alice"), self.actor("carol")
        at, create = "/v1/conversations/{conversation_id}", "/v1/responses"
        yield from self.request(alice, "conversations.create", "/v1/conversations", 7200, made=conversation)
        for ago in (7000, 6400, 5100):
            yield from self.request(
                alice,
                "responses.create",
                create,
                ago,
                named=conversation,
                made=(Target("response", self.opaque("resp_")),),
                model="gpt-5",
            )
        denied = Outcome(Result.DENY, "not_owned", 404)
        for ago in (4800, 4790, 4500):
            yield from self.request(carol, "conversations.retrieve", at, ago, named=conversation, ending=denied)
        yield from self.request(alice, "conversations.retrieve", at, 3000, named=conversation)
        yield from self.request(
            alice,
            "responses.create",
            create,
            2500,
            named=conversation,
            ending=Outcome(Result.ERROR, "upstream_timeout", 504),
            model="gpt-5",
        )
        yield from self.request(alice, "conversations.delete", at, 600, named=conversation)

    def day(self, requests: int) -> Iterator[Event]:
        """Ordinary work over 24 hours, oldest first."""
        people = [self.actor(name) for name in ("alice", "carol", "dmitri", "erin")] + [
            self.actor("billing-worker", PrincipalKind.SERVICE, "jwt")
        ]
        models = ["gpt-5", "gpt-5-mini", "o4-mini"]
        reasons = ["not_owned", "foreign_or_retired", "not_an_opaque_id", "policy_denied", "route_denied"]
        conversations = [self.opaque("conv_") for _ in range(6)]
        for number in range(requests):
            ago = 86_000 * (1 - number / requests)
            actor = self._random.choices(people, weights=[5, 3, 2, 1, 4])[0]
            luck = self._random.random()
            ending = None
            if luck < 0.07:
                ending = Outcome(Result.DENY, self._random.choices(reasons, weights=[6, 2, 3, 1, 1])[0], 404)
            elif luck < 0.09:
                ending = Outcome(Result.ERROR, "upstream_timeout", 504)
            named = (Target("conversation", self._random.choice(conversations)),) if self._random.random() < 0.6 else ()
            yield from self.request(
                actor,
                self._random.choices(
                    ["responses.create", "responses.retrieve", "chat.completions.create"], weights=[6, 2, 3]
                )[0],
                "/v1/responses",
                ago,
                named=named,
                made=(Target("response", self.opaque("resp_")),),
                ending=ending,
                model=self._random.choice(models),
            )

    def flood(self, actor: Actor, count: int, ago_s: float, *targets: Target) -> Event:
        """The sum of one second's refusals."""
        at_us = int(self._now_us - ago_s * 1e6)
        said: dict[str, Change] = {
            "actor": actor.pseudonym, "count": count, "distinct_targets": len(targets), "second": at_us // 1_000_000,
        }  # fmt: skip
        outcome = Outcome(Result.DENY, "not_owned", 429)
        return Event(self.tenant, at_us, EventType.REFUSALS_SUMMED, Phase.SINGLE, SYSTEM, None, outcome, targets, said)

    def hostile(self) -> Iterator[Event]:
        """Events in which everything that somebody else may choose wants to deceive."""
        for number, text in enumerate(HOSTILE):
            actor = self.actor(text)
            yield from self.request(
                actor,
                "responses.create",
                "/v1/responses",
                300 - number,
                named=(Target(text, text),),
                ending=Outcome(Result.DENY, text, 404, text),
                model=text,
            )
        yield Event(
            self.tenant,
            self._now_us,
            HOSTILE[0],
            Phase.SINGLE,
            self.actor("mallory"),
            None,
            Outcome(Result.ALLOW),
            (),
            {HOSTILE[1]: HOSTILE[2], "plan_before": HOSTILE[3], "plan_after": HOSTILE[8]},
        )
