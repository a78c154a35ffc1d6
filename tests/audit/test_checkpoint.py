from __future__ import annotations

import base64

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from gateway.audit.checkpoint import (
    Checkpoint,
    VerifierKey,
    log_origin,
    open_note,
    public_key,
    sign,
)
from gateway.names import TenantId

DEPLOYMENT, TENANT = "0123456789abcdef", TenantId("aaaabbbbccccdddd")
ORIGIN = log_origin(DEPLOYMENT, TENANT)
SEED, OTHER_SEED = bytes(range(32)), b"o" * 32
KEY, OTHER_KEY = public_key(ORIGIN, SEED), public_key(ORIGIN, OTHER_SEED)
CHECKPOINT = Checkpoint(ORIGIN, 512, b"r" * 32)
NOTE = sign(CHECKPOINT, SEED)

# The example of c2sp.org/tlog-checkpoint and the key hash of its signature line, which its published key gives.
SPEC_KEY = "sum.golang.org+033de0ae+Ac4zctda0e5eza+HJyk9SxEdh+s3Ux18htTTAD8OuAn8"


def test_a_note_is_the_text_a_blank_line_and_a_signature_over_the_text() -> None:
    text, signature = NOTE.split("\n\n")
    assert text == f"coatcheck/{DEPLOYMENT}/{TENANT}\n512\n{base64.b64encode(b'r' * 32).decode()}"
    dash, name, box = signature.rstrip("\n").split(" ")
    assert (dash, name) == ("—", ORIGIN)
    assert base64.b64decode(box)[:4] == KEY.id
    Ed25519PrivateKey.from_private_bytes(SEED).public_key().verify(base64.b64decode(box)[4:], f"{text}\n".encode())


def test_a_key_id_is_the_one_of_the_signed_note_specification() -> None:
    name, key_id, box = SPEC_KEY.split("+", 2)
    assert VerifierKey(name, base64.b64decode(box)[1:]).id.hex() == key_id


def test_a_signed_checkpoint_opens_with_its_key_alone() -> None:
    assert open_note(NOTE, KEY) == CHECKPOINT
    assert open_note(NOTE, (OTHER_KEY, KEY)) == CHECKPOINT
    assert open_note(NOTE, OTHER_KEY) is None
    assert open_note(NOTE, ()) is None


def test_a_key_of_one_tenant_opens_nothing_of_another() -> None:
    other = log_origin(DEPLOYMENT, TenantId("zzzzyyyyxxxxwwww"))
    assert open_note(sign(Checkpoint(other, 512, b"r" * 32), SEED), KEY) is None
    assert open_note(NOTE, public_key(other, SEED)) is None
    # The other tenant's origin under this tenant's signature.
    stolen = Checkpoint(other, 512, b"r" * 32).text
    signature = base64.b64encode(KEY.id + Ed25519PrivateKey.from_private_bytes(SEED).sign(stolen.encode())).decode()
    assert open_note(f"{stolen}\n— {ORIGIN} {signature}\n", KEY) is None


def test_a_new_epoch_has_an_origin_of_its_own_and_the_same_key() -> None:
    resealed = Checkpoint(log_origin(DEPLOYMENT, TENANT, 2), 7, b"r" * 32)
    assert resealed.origin == f"{ORIGIN}/2"
    assert (resealed.name, resealed.epoch, resealed.tenant) == (ORIGIN, 2, TENANT)
    assert (CHECKPOINT.name, CHECKPOINT.epoch) == (ORIGIN, 0)
    assert open_note(sign(resealed, SEED), KEY) == resealed


def test_a_public_key_has_one_spelling() -> None:
    line = str(public_key(ORIGIN, SEED))
    assert VerifierKey.parse(line) == KEY
    name, key_id, box = line.split("+", 2)
    wrong = (
        f"{name}+00000000+{box}",
        f"{name}+{key_id.upper()}+{box}",
        f"{name}+{key_id}+{box}=",
        f"{name}+{key_id}",
        f"{name}x+{key_id}+{box}",
        str(VerifierKey("example.com/log", KEY.public)),
        line + "\n",
        "",
    )
    for one in wrong:
        if one != line:
            with pytest.raises(ValueError, match="public key"):
                VerifierKey.parse(one)


def test_a_witness_may_sign_too_and_a_broken_signature_of_the_log_spoils_the_note() -> None:
    witness = f"— witness.example/w1 {base64.b64encode(b'w' * 76).decode()}\n"
    assert open_note(NOTE + witness, KEY) == CHECKPOINT
    broken = f"— {ORIGIN} {base64.b64encode(KEY.id + b's' * 64).decode()}\n"
    assert open_note(NOTE + broken, KEY) is None
    assert open_note(NOTE + "— no signature\n", KEY) is None
    assert open_note(NOTE.split("\n\n")[0] + "\n\n" + witness, KEY) is None


@given(st.data())
def test_no_change_of_a_character_leaves_a_note_that_opens(data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(NOTE) - 1))
    other = data.draw(st.characters().filter(lambda character: character != NOTE[at]))
    changed = data.draw(st.sampled_from((NOTE[:at] + NOTE[at + 1 :], NOTE[:at] + other + NOTE[at + 1 :])))
    assert open_note(changed, KEY) is None


@given(st.text() | st.text(alphabet="—\n +/=a0").map(lambda text: NOTE.split("\n\n")[0] + text))
def test_what_is_no_note_does_not_open(text: str) -> None:
    assert open_note(text, KEY) is None


def test_sizes_and_roots_have_one_spelling() -> None:
    private = Ed25519PrivateKey.from_private_bytes(SEED)
    lines = CHECKPOINT.text.split("\n")
    for text in (
        CHECKPOINT.text.replace("512", "0512"),
        CHECKPOINT.text.replace("512", "-512"),
        CHECKPOINT.text.replace("512", "9" * 30),
        CHECKPOINT.text.replace("512", str(2**63)),
        CHECKPOINT.text + "an extension\n",
        CHECKPOINT.text.replace(lines[2], lines[2][:-2] + "J="),
        CHECKPOINT.text.replace(lines[2], base64.b64encode(b"r" * 31).decode()),
        f"{lines[0]}/0\n{lines[1]}\n{lines[2]}\n",
    ):
        signature = base64.b64encode(KEY.id + private.sign(text.encode())).decode()
        assert open_note(f"{text}\n— {ORIGIN} {signature}\n", KEY) is None, text


def test_what_is_no_log_of_a_tenant_gets_no_checkpoint() -> None:
    for origin, size, root in (
        ("example.com/log", 1, bytes(32)),
        (ORIGIN + "\n", 1, bytes(32)),
        (ORIGIN, -1, bytes(32)),
        (ORIGIN, 1, bytes(31)),
    ):
        with pytest.raises(ValueError, match="not a checkpoint"):
            Checkpoint(origin, size, root)
