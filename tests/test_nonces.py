from __future__ import annotations

import os

from gateway.ids.keys import NONCE_BYTES
from gateway.nonces import fresh_nonce


def test_no_nonce_is_given_twice_across_many_blocks() -> None:
    nonces = [fresh_nonce() for _ in range(5_000)]
    assert len(set(nonces)) == len(nonces)
    assert {len(nonce) for nonce in nonces} == {NONCE_BYTES}


def test_a_forked_process_gets_other_nonces_than_its_parent() -> None:
    fresh_nonce()  # a block is there to be inherited
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(send, b"".join(fresh_nonce() for _ in range(100)))
        os._exit(0)
    os.waitpid(child, 0)
    theirs = os.read(receive, 100 * NONCE_BYTES)
    os.close(receive)
    os.close(send)
    mine = {fresh_nonce() for _ in range(1_000)}
    assert mine.isdisjoint(theirs[at : at + NONCE_BYTES] for at in range(0, len(theirs), NONCE_BYTES))
    assert len(theirs) == 100 * NONCE_BYTES
