"""What the service says by webhook (https://platform.openai.com/docs/api-reference/webhook-events): which object an event is
about, and where its ID stands. What is about nothing that tenants have here is the operator's.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from gateway.names import Kind
from gateway.surfaces.spec import PLAIN, Id, Obj, Role, Typed

_SUBJECTS: Final[Mapping[Kind, tuple[str, ...]]] = {
    Kind.RESPONSE: ("response.cancelled", "response.completed", "response.failed", "response.incomplete"),
    Kind.BATCH: ("batch.cancelled", "batch.completed", "batch.expired", "batch.failed"),
    Kind.FINE_TUNING_JOB: ("fine_tuning.job.cancelled", "fine_tuning.job.failed", "fine_tuning.job.succeeded"),
}
SUBJECTS: Final[Mapping[str, Kind]] = MappingProxyType(
    {type_: kind for kind, types in _SUBJECTS.items() for type_ in types}
)
"""By an event's type, the kind of the root that it is about."""

_NAMED: Final = {"type": PLAIN, "object": PLAIN, "created_at": PLAIN}

EVENT: Final = Typed(
    {
        type_: Obj({**_NAMED, "data": Obj({"id": Id(kind, Role.REF), "status": PLAIN})})
        for type_, kind in SUBJECTS.items()
    },
    other=Obj({}),
)
"""An event's own `id` (`evt_…`) addresses nothing, and is written as an ID that never opens."""


def subject(event: Any) -> tuple[Kind, str] | None:
    """Kind and raw ID of the root that `event`, the parsed body, is about; None: it is about none that can be a tenant's."""
    if not isinstance(event, dict) or not isinstance(event.get("type"), str):
        return None
    kind, data = SUBJECTS.get(event["type"]), event.get("data")
    raw = data.get("id") if isinstance(data, dict) else None
    return (kind, raw) if kind is not None and isinstance(raw, str) and raw else None
