"""Sign-in by OpenID Connect: the code flow with PKCE (RFC 7636), and an attempt that lives on the server and is redeemed once.

An attempt is found by its `state` and bound to the browser that began it by a cookie of its own, so that an answer that was
stolen, replayed, swapped between providers (RFC 9207) or slipped to somebody else signs nobody in.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gateway.authn.jwks_fetch import Fetcher
from gateway.authn.relying_party import RelyingParty
from gateway.authn.verdict import Refusal
from gateway.console.provider import Provider, ProviderFailed
from gateway.console.reviewer import Reviewer, reviewer_of
from gateway.console.session import Box
from gateway.names import Principal
from gateway.stores.contract import Store

ATTEMPT_COOKIE: Final = "__Host-coatcheck-sign-in"
ATTEMPT_S: Final = 600
ATTEMPTS: Final = (500, 25.0)
"""At once and a second, of all strangers together, for as long as it lasts: at most 15,500 attempts lie in the store."""
ATTEMPTS_OF_ONE: Final = (50, 1.0)
"""Likewise, of one network, so that no single one keeps everybody else from signing in."""
_NETWORKS: Final = 4096
"""So many are remembered before those are forgotten that have all of their attempts again."""
DONE_PATH: Final = "/sign-in/done"
"""The redirect address, behind the console's origin."""


class Why(StrEnum):
    """Why nobody was signed in. Closed and alphabetised; the values stand in logs, never on the page."""

    ANSWER_AMBIGUOUS = "answer_ambiguous"
    ANSWER_REFUSED = "answer_refused"
    """The provider says that it did not work: the person gave up, say."""
    ATTEMPT_UNKNOWN = "attempt_unknown"
    """Never begun, redeemed before, or too old."""
    ISSUER_MIXED_UP = "issuer_mixed_up"
    OTHER_BROWSER = "other_browser"
    PROVIDER_FAILED = "provider_failed"
    PROVIDER_UNKNOWN = "provider_unknown"
    ROLE_MISSING = "role_missing"
    TOKEN_REFUSED = "token_refused"  # noqa: S105 - a reason
    TOO_MANY = "too_many"
    """More sign-ins are begun than people begin: each takes room in the store."""


class SignInFailed(Exception):
    """`principal`: who it was, where that is certain."""

    def __init__(self, why: Why, detail: str = "", principal: Principal | None = None) -> None:
        super().__init__(detail or why.value)
        self.why = why
        self.principal = principal


@dataclass(frozen=True, slots=True)
class Begun:
    url: str
    """Where the browser goes."""
    cookie: str
    """What binds the attempt to this browser."""


class SignIn:
    def __init__(
        self,
        parties: Iterable[RelyingParty],
        store: Store,
        box: Box,
        origin: str,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`clock` gives UTC seconds."""
        fetcher = Fetcher()
        self.providers: Mapping[str, Provider] = {
            str(number): Provider(party, fetcher, origin + DONE_PATH) for number, party in enumerate(parties, 1)
        }
        """By the name that stands in the address of the sign-in's beginning."""
        self._store = store
        self._box = box
        self._clock = clock
        self._room = _Room(*ATTEMPTS, clock())
        self._rooms: dict[str, _Room] = {}

    async def aclose(self) -> None:
        for provider in self.providers.values():
            await provider.aclose()

    async def begin(self, name: str, next_path: str, client: str = "") -> Begun:
        """`next_path`: where to go afterwards, a path of ours; `client`: the network address that asks. Raises SignInFailed
        and what the store raises."""
        provider = self.providers.get(name)
        if provider is None:
            raise SignInFailed(Why.PROVIDER_UNKNOWN)
        if not self._has_room(network_of(client)):
            raise SignInFailed(Why.TOO_MANY)
        state, nonce, verifier, browser = (secrets.token_urlsafe(32) for _ in range(4))
        try:
            url = await provider.authorization_url(state, nonce, verifier)
        except ProviderFailed as error:
            raise SignInFailed(Why.PROVIDER_FAILED, str(error)) from error
        place = self._box.name("sign-in", state)
        kept = {
            "provider": name,
            "issuer": provider.party.provider.issuer,
            "nonce": nonce,
            "verifier": verifier,
            "browser": self._box.name("browser", browser),
            "next": own_path(next_path),
        }
        await self._store.put_sign_in(place, self._box.seal(place, kept), ATTEMPT_S)
        return Begun(url, browser)

    async def finish(self, answer: Iterable[tuple[str, str]], browser: str) -> tuple[Reviewer, str]:
        """The reviewer, and where to go. `answer`: the query of the redirect. Raises SignInFailed and what the store raises."""
        said = dict(pairs := list(answer))
        if len(said) != len(pairs):
            raise SignInFailed(Why.ANSWER_AMBIGUOUS)
        place = self._box.name("sign-in", said.get("state", ""))
        attempt = self._box.open(place, await self._store.take_sign_in(place))
        if attempt is None:
            raise SignInFailed(Why.ATTEMPT_UNKNOWN)
        if not hmac.compare_digest(str(attempt["browser"]), self._box.name("browser", browser)):
            raise SignInFailed(Why.OTHER_BROWSER)
        provider = self.providers.get(str(attempt["provider"]))
        if provider is None or provider.party.provider.issuer != attempt["issuer"]:
            raise SignInFailed(Why.PROVIDER_UNKNOWN)
        return await self._reviewer(provider, said, attempt), str(attempt["next"])

    def _has_room(self, network: str) -> bool:
        now = self._clock()
        if self._room.left(now) < 1:
            return False
        if len(self._rooms) >= _NETWORKS:
            self._rooms = {name: room for name, room in self._rooms.items() if room.left(now) < room.most}
        # What a network has not left takes nothing from all others.
        return self._rooms.setdefault(network, _Room(*ATTEMPTS_OF_ONE, now)).take(now) and self._room.take(now)

    async def _reviewer(self, provider: Provider, said: Mapping[str, str], attempt: Mapping[str, object]) -> Reviewer:
        try:
            metadata = await provider.metadata()
            if said.get("iss", attempt["issuer"] if not metadata.sends_issuer else None) != attempt["issuer"]:
                raise SignInFailed(Why.ISSUER_MIXED_UP)
            if "error" in said or not said.get("code"):
                raise SignInFailed(Why.ANSWER_REFUSED)
            principal = await provider.principal(
                said["code"], str(attempt["verifier"]), str(attempt["nonce"]), self._clock()
            )
        except ProviderFailed as error:
            raise SignInFailed(Why.PROVIDER_FAILED, str(error)) from error
        except Refusal as refusal:
            raise SignInFailed(Why.TOKEN_REFUSED, refusal.why.value) from refusal
        reviewer = reviewer_of(provider.party, principal)
        if reviewer is None:
            raise SignInFailed(Why.ROLE_MISSING, principal=principal)
        return reviewer


@dataclass(slots=True)
class _Room:
    """At most `most` at once, and `per_s` a second for as long as it lasts."""

    most: float
    per_s: float
    at: float
    used: float = 0.0

    def left(self, now: float) -> float:
        self.used, self.at = max(0.0, self.used - max(0.0, now - self.at) * self.per_s), now
        return self.most - self.used

    def take(self, now: float) -> bool:
        if self.left(now) < 1:
            return False
        self.used += 1
        return True


def network_of(client: str) -> str:
    """Whose an address is: of IPv6, the 64 bits that one customer has (RFC 6177)."""
    try:
        address = ipaddress.ip_address(client)
    except ValueError:
        return client
    if isinstance(address, ipaddress.IPv4Address) or address.ipv4_mapped:
        return client
    return str(ipaddress.ip_network((address, 64), strict=False))


def own_path(text: str) -> str:
    """`text` where it is a path of ours and nothing else, `/` otherwise. A browser reads `//` and `/\\` as another host."""
    plain = text.isascii() and text.isprintable() and "\\" not in text and " " not in text
    return text if plain and text.startswith("/") and not text.startswith("//") and len(text) <= 4096 else "/"
