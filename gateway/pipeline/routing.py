"""Which upstream a request goes to: the one that made what it names, else the tenant's home.

Objects of two projects know nothing of each other, so a request that names both is refused. A replay blob goes back to where it
was made as well: nobody else can read it.
"""

from __future__ import annotations

from dataclasses import dataclass

from gateway.errors import Problem, Reason
from gateway.pipeline.exchange import Exchange
from gateway.pipeline.provider import Provider
from gateway.stores.records import Root
from gateway.surfaces.spec import Blob
from gateway.upstreams.fleet import Fleet


@dataclass(frozen=True, slots=True)
class Routing:
    fleet: Fleet[Provider]

    @property
    def first(self) -> Provider:
        """Under whose name a tenant's keys are at work until more is known of a request."""
        return self.fleet.members[0]

    def choose(self, exchange: Exchange) -> None:
        """Sets the exchange's provider, and the mapper for what its answer shows. Raises Problem."""
        provider = self._named(exchange)
        if provider is None and len(self.fleet.members) > 1:
            provider = self._sealed(exchange) or self.fleet.home(exchange.known_mapper.tenant)
        exchange.provider = provider or self.first
        exchange.mapper = exchange.known_mapper.at(exchange.provider.name, exchange.provider.project)

    def of(self, root: Root) -> Provider | None:
        """Who serves the object; None where no upstream of its project is left."""
        return self.fleet.serving(root.upstream, root.project)

    def _named(self, exchange: Exchange) -> Provider | None:
        """Who serves all that the request names. Raises Problem where nobody does."""
        found: Provider | None = None
        for opened in exchange.opened.values():
            serving = self.of(opened.root)
            if serving is None:
                raise Problem(Reason.UPSTREAM_UNAVAILABLE, retry_after_s=60)
            if found is not None and serving.project != found.project:
                raise _apart()
            found = found or serving
        return found

    def _sealed(self, exchange: Exchange) -> Provider | None:
        """Where the request's replay blobs were made. What is nobody's is refused where blobs are opened."""
        mapper, owner = exchange.known_mapper, exchange.known_principal.owner
        for slot in exchange.collected.slots:
            if isinstance(slot.spec, Blob):
                for one in self.fleet.members:
                    if mapper.at(one.name, one.project).open_blob(owner, slot.text) is not None:
                        return self.fleet.serving(one.name, one.project)
        return None


def check_together(exchange: Exchange, project: str) -> None:
    """Raises Problem for what lives elsewhere: a line of a file, a frame of a socket goes where all of them go."""
    if any(opened.root.project != project for opened in exchange.opened.values()):
        raise _apart()


def _apart() -> Problem:
    return Problem(Reason.BAD_PARAMETER, "it names objects of different projects, which cannot be used together")
