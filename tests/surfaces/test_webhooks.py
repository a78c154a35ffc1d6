"""The table of webhooks beside the installed `openai` package: every type that it knows is a tenant's or left out on purpose."""

from __future__ import annotations

from typing import Any, get_args

from openai.types.webhooks.unwrap_webhook_event import UnwrapWebhookEvent

from gateway.names import Kind
from gateway.surfaces.webhooks import EVENT, SUBJECTS, subject

LEFT_OUT = (
    "agent.",  # agents are refused
    "eval.run.",  # evaluations are refused
    "live.",  # calls go past the gateway and are refused
    "realtime.call.",  # the same
    "safety.",  # about the operator's account
)


def types() -> set[str]:
    union = get_args(UnwrapWebhookEvent)[0]
    return {get_args(one.model_fields["type"].annotation)[0] for one in get_args(union)}


def test_every_type_of_the_package_is_a_tenants_or_left_out_on_purpose() -> None:
    known = types()
    assert len(known) > 25
    assert {one for one in known if not one.startswith(LEFT_OUT)} == set(SUBJECTS)
    assert not [one for one in SUBJECTS if one.startswith(LEFT_OUT)]
    assert EVENT.table.keys() == SUBJECTS.keys()


def test_an_events_subject_is_what_its_data_names_and_nothing_else_is_one() -> None:
    good = {"type": "batch.completed", "data": {"id": "batch_1"}}
    assert subject(good) == (Kind.BATCH, "batch_1")
    others: tuple[Any, ...] = (
        None,
        [],
        "batch.completed",
        {},
        {**good, "type": ["batch.completed"]},
        {**good, "type": "batch.renamed"},
        {**good, "type": "safety.alert.created"},
        {**good, "data": "batch_1"},
        {**good, "data": {"id": 7}},
        {**good, "data": {"id": ""}},
        {**good, "data": {}},
    )
    for other in others:
        assert subject(other) is None
