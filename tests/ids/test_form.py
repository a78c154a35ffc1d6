"""The opaque form. `KEYS` and friends are made up; nothing here is read from a store."""

from __future__ import annotations

import hashlib
import hmac
import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.ids.encoding import ALPHABET, base62
from gateway.ids.form import DeploymentForm, Parsed, TenantForm, prefix_of
from gateway.ids.keys import IdentityKeys
from gateway.ids.kinds import KINDS
from gateway.names import Kind
from tests.vectors import make_opaque_ids

VECTORS = Path(__file__).parent.parent / "vectors" / "opaque_ids.json"
FORM = DeploymentForm("00112233445566aa", {1: b"t" * 32}, 1)
ALICE = TenantForm(FORM, {1: IdentityKeys.derive(b"a" * 32)}, 1)
BOB = TenantForm(FORM, {1: IdentityKeys.derive(b"b" * 32)}, 1)
RAW = "resp_0c392a2e7f017469006a6c0507abcdef0123456789abcdef01"
OPAQUE = ALICE.opaque(Kind.RESPONSE, RAW, "proj").text

kinds = st.sampled_from(list(Kind))
tails = (
    st.text("0123456789abcdef", min_size=32, max_size=50)
    | st.uuids().map(str)
    | st.uuids().map(lambda name: name.hex)
    | st.text(ALPHABET, min_size=21, max_size=29)
    | st.text(min_size=1, max_size=200)
)


@st.composite
def ids(draw: st.DrawFn) -> tuple[Kind, str]:
    kind = draw(kinds)
    prefix = draw(st.sampled_from([*KINDS[kind].prefixes, "", "xq_", "quiteunknown-", "a" * 60 + "_"]))
    return kind, prefix + draw(tails)


@given(ids(), st.text(max_size=40))
def test_an_opaque_id_verifies_to_the_address_of_its_raw_id(named: tuple[Kind, str], project: str) -> None:
    kind, raw = named
    opaque = ALICE.opaque(kind, raw, project).text
    assert FORM.verify(opaque) == Parsed(opaque[:-34], 1, 1, ALICE.h(kind, raw, project))


@given(ids())
def test_it_is_its_prefix_and_34_alphanumerics_at_most_64_characters(named: tuple[Kind, str]) -> None:
    for opaque in (ALICE.opaque(*named, "p"), ALICE.inert(*named), ALICE.inert(None, named[1])):
        assert re.fullmatch(r"([a-z][a-z0-9]*(_[a-z]+)*[_-]|ft:)[A-Za-z0-9]{34}", opaque.text)
        assert len(opaque.text) <= 64


@given(ids())
def test_it_is_the_same_each_time_and_another_for_another_tenant_kind_or_project(named: tuple[Kind, str]) -> None:
    kind, raw = named
    fresh = TenantForm(FORM, {1: IdentityKeys.derive(b"a" * 32)}, 1)
    assert fresh.opaque(kind, raw, "p") == ALICE.opaque(kind, raw, "p") == ALICE.opaque(kind, raw, "p")
    other_kind = Kind.FILE if kind is not Kind.FILE else Kind.ITEM
    hs = [ALICE.h(kind, raw, "p"), BOB.h(kind, raw, "p"), ALICE.h(kind, raw, "q"), ALICE.h(other_kind, raw, "p")]
    assert len(set(hs)) == 4


@pytest.mark.parametrize(
    ("kind", "raw", "prefix"),
    [
        (Kind.RESPONSE, "resp_1", "resp_"),
        (Kind.RESPONSE, "1f2e3d4c-0000-4000-8000-000000000000", "resp_"),
        (Kind.RESPONSE, "conv_1", "resp_"),
        (Kind.ITEM, "fco_1", "fco_"),
        (Kind.ITEM, "mcpl_1", "mcpl_"),
        (Kind.ITEM, "agentmsg_1", "agentmsg_"),
        (Kind.ITEM, "deadbeef-abcd-4000-8000-000000000000", "msg_"),
        (Kind.ITEM, "0c392a2e7f017469006a6c0507abcdef01", "msg_"),
        (Kind.ITEM, "abc1def_xyz", "msg_"),
        (Kind.ITEM, "x" * 40 + "_1", "msg_"),
        (Kind.VECTOR_STORE_BATCH, "vsfb_ibj_1", "vsfb_ibj_"),
        (Kind.FILE, "assistant-1", "file-"),
        (None, "org-1", "org-"),
        (None, "rtc_u1_1", "rtc_"),
        (None, "resp_1", "resp_"),
        (None, "novel_1", "novel_"),
        (None, "1f2e3d4c", "id_"),
    ],
)
def test_the_raw_prefix_stays_where_it_is_one_and_shows_nothing_of_the_id(
    kind: Kind | None, raw: str, prefix: str
) -> None:
    assert prefix_of(kind, raw) == prefix


def test_any_single_changed_character_is_not_ours() -> None:
    characters = ALPHABET + "_-. =+/\u0662é"
    for at, old in enumerate(OPAQUE):
        for new in characters:
            if new != old:
                assert FORM.verify(OPAQUE[:at] + new + OPAQUE[at + 1 :]) is None, (at, new)


@pytest.mark.parametrize(
    "other",
    [
        OPAQUE.upper(), OPAQUE.lower(), OPAQUE.swapcase(), " " + OPAQUE, OPAQUE + " ", OPAQUE + "\n", OPAQUE + "=",
        OPAQUE[:-1], OPAQUE + "0", OPAQUE[1:], OPAQUE[:5] + "0" + OPAQUE[5:], "msg_" + OPAQUE[5:], "resp-" + OPAQUE[5:],
        "resp_resp_" + OPAQUE[5:], "x_" + OPAQUE, OPAQUE[5:], "_" + OPAQUE[5:], OPAQUE + OPAQUE[5:], RAW, "", "resp_",
        "\ud800" * 40, "resp_" + "z" * 34, "resp_" + "0" * 34, "r" * 10_000_000,
    ],
    ids=lambda text: repr(text[:48]),
)  # fmt: skip
def test_another_case_padding_length_or_prefix_is_not_ours(other: str) -> None:
    assert FORM.verify(other) is None


@given(st.text(max_size=70) | st.text(ALPHABET, min_size=34, max_size=34).map("resp_".__add__))
def test_what_was_not_minted_here_never_verifies(text: str) -> None:
    assert FORM.verify(text) is None


def test_an_id_longer_than_64_characters_is_not_ours_even_with_a_good_tag() -> None:
    assert FORM.verify(FORM.mint("a" * 29 + "_", 1, bytes(16)).text) is not None
    assert FORM.verify(FORM.mint("a" * 30 + "_", 1, bytes(16)).text) is None


def test_an_id_of_an_epoch_whose_keys_are_gone_is_no_inert_id() -> None:
    assert not ALICE.is_inert(Parsed("resp_", 9, 1, bytes(16)))


def test_an_id_of_another_deployment_does_not_verify_even_under_the_same_key() -> None:
    assert DeploymentForm("ffffffffffffffff", {1: b"t" * 32}, 1).verify(OPAQUE) is None


def test_an_opaque_id_says_nothing_of_the_raw_one_that_a_sibling_shares() -> None:
    sibling = ALICE.opaque(Kind.RESPONSE, RAW[:-1] + "2", "proj").text
    same = sum(a == b for a, b in zip(OPAQUE[5:], sibling[5:], strict=True))
    assert same < 10  # of 34; the version byte makes two alike, chance a few more


def test_a_million_forged_ids_are_rejected() -> None:
    """Each has the right length, alphabet, prefix and header, so that the tag alone decides."""
    chance = random.Random(62)
    verify = FORM.verify
    header = FORM.header(1)
    for _ in range(1_000):
        block = chance.randbytes(24_000)
        for start in range(0, 24_000, 24):
            if verify("resp_" + base62(header + block[start : start + 24], 34)) is not None:
                pytest.fail("a forged ID verified")


def test_a_tenant_knows_its_own_inert_ids_from_genuine_ones_and_from_strangers() -> None:
    def parsed(text: str) -> Parsed:
        found = FORM.verify(text)
        assert found is not None
        return found

    inert = parsed(ALICE.inert(Kind.RESPONSE, RAW).text)
    assert ALICE.is_inert(inert)
    assert not BOB.is_inert(inert)
    assert not ALICE.is_inert(parsed(OPAQUE))
    assert not ALICE.is_inert(parsed(BOB.inert(Kind.RESPONSE, RAW).text))
    assert inert.h != ALICE.h(Kind.RESPONSE, RAW, "proj")


@given(ids())
def test_an_inert_id_is_stable_whether_or_not_its_kind_is_known(named: tuple[Kind, str]) -> None:
    kind, raw = named
    opaque = ALICE.inert(kind, raw)
    assert opaque == ALICE.inert(kind, raw) != BOB.inert(kind, raw)
    if any(raw.startswith(prefix) for prefix in KINDS[kind].prefixes):
        assert opaque == ALICE.inert(None, raw)


@given(st.binary(min_size=16, max_size=16))
def test_a_forged_h_is_no_inert_id(h: bytes) -> None:
    assert not ALICE.is_inert(Parsed("resp_", 1, 1, h))


def test_retiring_the_tag_key_kills_every_older_id() -> None:
    after = DeploymentForm(FORM.deployment, {2: b"u" * 32}, 2)
    assert after.verify(OPAQUE) is None
    again = TenantForm(after, {1: IdentityKeys.derive(b"a" * 32)}, 1)
    assert again.h(Kind.RESPONSE, RAW, "proj") == ALICE.h(Kind.RESPONSE, RAW, "proj")


def test_a_new_identity_epoch_kills_the_older_ids_of_that_tenant_only() -> None:
    epochs = {1: IdentityKeys.derive(b"a" * 32), 2: IdentityKeys.derive(b"c" * 32)}
    after = TenantForm(FORM, epochs, 2)
    old, new = FORM.verify(OPAQUE), FORM.verify(after.opaque(Kind.RESPONSE, RAW, "proj").text)
    assert old is not None
    assert new is not None
    assert not after.is_current(old)
    assert after.is_current(new)
    assert new.h != old.h
    assert BOB.is_current(old)


@pytest.mark.parametrize("version", [-1, 16])
def test_versions_that_do_not_fit_four_bits_are_refused(version: int) -> None:
    with pytest.raises(ValueError, match="0 to 15"):
        DeploymentForm("d", {version: b"t" * 32}, version)
    with pytest.raises(ValueError, match="0 to 15"):
        TenantForm(FORM, {version: IdentityKeys.derive(b"a" * 32)}, version)


def test_the_published_vectors_hold_for_an_implementation_that_shares_no_code() -> None:
    data = json.loads(VECTORS.read_text())
    assert len(data["vectors"]) == 200
    for vector in data["vectors"]:
        assert _independent(data, vector) == vector["opaque"]


def test_the_published_vectors_are_what_the_gateway_writes(capsys: pytest.CaptureFixture[str]) -> None:
    make_opaque_ids.main()
    assert capsys.readouterr().out == VECTORS.read_text()


def _independent(data: dict[str, Any], vector: dict[str, Any]) -> str:
    """The form again, from its description: no code of the gateway."""

    def mac(key: str, *parts: bytes) -> bytes:
        message = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
        return hmac.new(bytes.fromhex(key), message, hashlib.sha256).digest()

    prefix = vector["opaque"][:-34].encode()
    header = bytes([vector["epoch"] * 16 + vector["tag_version"]])
    deployment, kind, raw = (text.encode() for text in (data["deployment"], vector["kind"], vector["raw"]))
    if vector["inert"]:
        key = data["inert_keys"][str(vector["epoch"])]
        r = mac(key, kind, raw)[:8]
        h = r + mac(key, prefix, header, r)[:8]
    else:
        key = data["prf_keys"][str(vector["epoch"])]
        h = mac(key, data["h_domain"].encode(), deployment, vector["project"].encode(), kind, raw)[:16]
    tag_key = data["tag_keys"][str(vector["tag_version"])]
    tag = mac(tag_key, data["tag_domain"].encode(), deployment, prefix, header, h)[:8]
    number = int.from_bytes(header + h + tag, "big")
    digits = ""
    for _ in range(34):
        digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"[number % 62] + digits
        number //= 62
    return f"{prefix.decode()}{digits}"
