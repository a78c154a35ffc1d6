"""The stage that says who is calling: one credential, the authenticators in their order, then the actor."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from gateway.authn.actor import with_actor
from gateway.authn.bearer import Headers, bearer_token
from gateway.authn.verdict import Authenticator, CredentialRefused, Rejected, Why, refused
from gateway.names import Principal

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Authentication:
    """The authenticators that this gateway was composed with, asked in order; the first that knows the form decides."""

    authenticators: tuple[Authenticator, ...]

    async def authenticate(self, headers: Headers, now: float) -> Principal:
        """The principal of the guard's `headers` at `now` (UTC seconds). Raises Problem: `CredentialRefused` where a
        credential was looked at and refused, another where there is no one credential or the named actor is refused."""
        try:
            return with_actor(await self._principal(bearer_token(headers), now), headers)
        except CredentialRefused as refusal:
            # Not at a louder level: anybody can cause it, as often as they like.
            LOG.debug("credential.refused", extra={"fields": {"why": refusal.why.value}})
            raise

    async def _principal(self, token: bytes, now: float) -> Principal:
        for authenticator in self.authenticators:
            verdict = await authenticator.authenticate(token, now)
            if isinstance(verdict, Principal):
                return verdict
            if isinstance(verdict, Rejected):
                raise refused(verdict.why, verdict.principal)
        raise refused(Why.UNCLAIMED)
