from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gateway.names import TenantId
from gateway.stores.erasures import ErasureList, ErasuresUnreadable

KEY = b"k" * 32
A, B, C = (TenantId(letter * 16) for letter in "abc")


@pytest.fixture
def listed(tmp_path: Path) -> ErasureList:
    erasures = ErasureList(tmp_path / "erasures", KEY)
    erasures.create()
    return erasures


def test_a_new_list_is_empty_and_readable_by_its_owner_only(listed: ErasureList) -> None:
    assert listed.tenants() == frozenset()
    assert listed.path.stat().st_mode & 0o777 == 0o600


def test_an_erased_tenant_stays_on_the_list(listed: ErasureList) -> None:
    listed.add(A, 1_800_000_000)
    listed.add(B, 1_800_000_001)
    listed.add(A, 1_800_000_002)
    listed.create()
    assert ErasureList(listed.path, KEY).tenants() == {A, B}
    assert len(listed.path.read_text().splitlines()) == 3


def test_a_missing_list_is_an_error_and_not_an_empty_one(tmp_path: Path) -> None:
    missing = ErasureList(tmp_path / "erasures", KEY)
    with pytest.raises(ErasuresUnreadable, match="cannot be opened"):
        missing.tenants()
    with pytest.raises(ErasuresUnreadable, match="cannot be opened"):
        missing.add(A, 1)


def test_no_line_can_be_taken_out_moved_or_changed(listed: ErasureList) -> None:
    for tenant in (A, B, C):
        listed.add(tenant, 1_800_000_000)
    head, a, b, c = listed.path.read_text().splitlines(keepends=True)
    wrong = [
        head + b + c, head + a + c, head + b + a + c, a + b + c, head + a + a + b, a, "", head[:-1], head + a + b[:-1],
        head + a + b[:20], head + head + a, head + a.replace("a" * 16, "d" * 16), head + a.replace("1800", "1900"),
        head + a.upper(), head + a + "\n", head + " " + a, head + a + "é" + b, head.replace("1", "2") + a,
    ]  # fmt: skip
    for text in wrong:
        listed.path.write_text(text)
        with pytest.raises(ErasuresUnreadable):
            listed.tenants()
        with pytest.raises(ErasuresUnreadable):
            listed.add(C, 1)
        assert listed.path.read_text() == text


def test_a_list_of_another_deployment_is_refused(listed: ErasureList) -> None:
    with pytest.raises(ErasuresUnreadable, match="line 1"):
        ErasureList(listed.path, b"o" * 32).tenants()


def test_erasures_at_the_same_time_all_stand(listed: ErasureList) -> None:
    tenants = [TenantId(f"tenant{number:010}") for number in range(30)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda tenant: ErasureList(listed.path, KEY).add(tenant, 1), tenants))
    assert listed.tenants() == set(tenants)
