from __future__ import annotations

import base64

from openai import OpenAI

from gateway.standard_webhooks import headers, show_secret, sign


def test_a_signature_is_that_of_the_published_example() -> None:
    secret = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    signature = sign(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    assert show_secret(secret) == "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def test_what_is_signed_with_two_secrets_is_good_for_who_has_either() -> None:
    body, now = b'{"id":"evt_1"}', 1_000
    signed = dict(headers("msg_1", (b"n" * 32, b"o" * 32), body, now))
    webhooks = OpenAI(api_key="none").webhooks
    for secret in (b"n" * 32, b"o" * 32):
        webhooks.verify_signature(body, signed, secret=show_secret(secret), tolerance=2**40)
