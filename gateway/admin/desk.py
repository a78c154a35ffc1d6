"""What an operator works on, by command or over HTTP: the parts of a deployment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from gateway.admin.administration import Administration, AdminMissing
from gateway.admin.erasing import Ender, Erasure, Place, erase_tenant
from gateway.admin.ids import Upstream
from gateway.audit.streams.registry import Streams
from gateway.mapping import Mapper
from gateway.names import TenantId
from gateway.webhooks.registry import Webhooks


@dataclass(frozen=True, slots=True)
class Desk:
    admin: Administration
    streams: Streams
    webhooks: Webhooks
    projects: Mapping[str, str]
    """The project of each upstream key, by the key's name in the settings; the first is the default."""
    place: Place
    open_ender: Callable[[], AbstractAsyncContextManager[Ender]]
    """Opens what deletes objects at the service. Raises AdminRefused where there is no key for it."""

    def upstream(self, name: str | None = None) -> Upstream:
        """The upstream key of that name; without one, the first. Raises AdminMissing."""
        chosen = name or next(iter(self.projects))
        if chosen not in self.projects:
            raise AdminMissing(f"there is no upstream of that name; there are {', '.join(self.projects)}")
        return Upstream(chosen, self.projects[chosen])

    async def erase(
        self, tenant: TenantId, *, leave: bool = False, progress: Callable[[str], None] = lambda text: None
    ) -> Erasure:
        """`erase_tenant`, after what waits on this machine was tried once more. Raises AdminRefused."""
        first, deployment = self.upstream(), await self.admin.keyring.deployment()
        async with self.open_ender() as ender:
            if waiting := await ender.sweep():
                progress(
                    f"{waiting} objects that this machine could not record, of whichever tenant, still wait to be deleted"
                )
            return await erase_tenant(
                self.admin,
                tenant,
                ender,
                lambda unlocked: Mapper(deployment, unlocked, first.name, first.project),
                self.place,
                leave=leave,
                progress=progress,
            )
