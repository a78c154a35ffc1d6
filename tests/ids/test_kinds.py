from __future__ import annotations

from collections.abc import Iterator

import pytest

from gateway.ids.kinds import KIND_OF_CODE, KINDS, OTHER_PREFIXES, PREFIXES, kind_of_prefix, lifetime_s
from gateway.names import Kind
from gateway.surfaces.route import Route
from gateway.surfaces.spec import Id
from gateway.surfaces.table import EVERY


def test_every_kind_has_a_row_and_a_code_of_its_own() -> None:
    assert set(KINDS) == set(Kind)
    assert {kind: row.code for kind, row in KINDS.items()} == {kind: code for code, kind in KIND_OF_CODE.items()}
    assert 0 not in KIND_OF_CODE


def test_codes_and_names_in_stored_records_never_change() -> None:
    assert {kind.value: row.code for kind, row in KINDS.items()} == {
        "response": 1, "conversation": 2, "item": 3, "file": 4, "upload": 5, "upload_part": 6, "vector_store": 7,
        "vector_store_batch": 8, "batch": 9, "container": 10, "container_file": 11, "chat_completion": 12, "skill": 13,
        "prompt": 14, "tunnel": 15, "voice": 16, "fine_tuning_job": 17, "video": 18, "chat_message": 19, "chat_audio": 20,
        "skill_version": 21, "fine_tuning_event": 22, "checkpoint": 23, "fine_tuned_model": 24, "call": 25,
    }  # fmt: skip


def test_no_prefix_belongs_to_two_kinds() -> None:
    assert len(set(PREFIXES)) == len(PREFIXES)
    assert all(kind_of_prefix(prefix) is kind for kind, row in KINDS.items() for prefix in row.prefixes)
    assert not any(kind_of_prefix(prefix) for prefix in OTHER_PREFIXES)


def test_a_child_belongs_to_roots_only() -> None:
    assert all(not KINDS[root].roots for row in KINDS.values() for root in row.roots)


def test_tokens_that_address_nothing_are_not_listed() -> None:
    assert not {"call_", "connector_"} & set(PREFIXES)


@pytest.mark.parametrize(
    ("kind", "root", "days"),
    [
        (Kind.RESPONSE, None, 30),
        (Kind.CONVERSATION, None, None),
        (Kind.ITEM, Kind.RESPONSE, 30),
        (Kind.ITEM, Kind.CONVERSATION, None),
    ],
)
def test_a_record_lives_as_long_as_its_root(kind: Kind, root: Kind | None, days: int | None) -> None:
    assert lifetime_s(kind, root) == (days and days * 86_400)


def test_the_served_kinds_are_those_with_a_surface() -> None:
    named = {kind for route in EVERY for kind in _named(route)}
    served = {kind for kind, row in KINDS.items() if row.served}
    assert served - named == {Kind.CHAT_AUDIO, Kind.UPLOAD_PART}, "these are named in bodies alone"
    assert not named - served


def _named(route: Route) -> Iterator[Kind]:
    """What a path, a query, or a creation is about."""
    for spec in (*route.path_ids.values(), *route.query.values()):
        if isinstance(spec, Id):
            yield spec.kind
    if route.creates:
        yield route.creates
