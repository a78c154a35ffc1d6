"""The prepared HMAC gives what the standard library's gives."""

import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.ids.mac import Mac


@given(st.binary(max_size=64), st.binary(max_size=300))
def test_a_prepared_key_gives_the_standard_hmac_each_time(key: bytes, message: bytes) -> None:
    mac = Mac(key)
    assert mac.digest(message) == mac.digest(message) == hmac.digest(key, message, "sha256")


@given(st.binary(max_size=64), st.binary(max_size=150), st.binary(max_size=150))
def test_a_key_prepared_behind_a_head_gives_the_hmac_of_head_and_message(key: bytes, head: bytes, rest: bytes) -> None:
    mac = Mac(key)
    assert mac.after(head).digest(rest) == hmac.digest(key, head + rest, "sha256")
    assert mac.digest(rest) == hmac.digest(key, rest, "sha256")


def test_a_key_longer_than_a_block_is_refused() -> None:
    with pytest.raises(ValueError, match="64 bytes"):
        Mac(bytes(65))


def test_a_prepared_key_does_not_show_itself() -> None:
    assert "6b6b6b6b" not in repr(Mac(b"k" * 32)).lower()
    assert "kkkk" not in repr(Mac(b"k" * 32))
