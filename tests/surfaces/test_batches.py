"""What a batch can run is what the package says it can, but for what nobody serves."""

from __future__ import annotations

from typing import get_args

from openai.types.batch_create_params import BatchCreateParams
from typing_extensions import get_type_hints

from gateway.surfaces.batches import ENDPOINTS, LINES
from gateway.surfaces.denied import reason_for
from gateway.surfaces.spec import Obj, Typed


def test_every_endpoint_of_the_package_is_run_or_refused_on_purpose() -> None:
    endpoints = set(get_args(get_type_hints(BatchCreateParams)["endpoint"]))
    assert "/v1/responses" in endpoints
    assert set(ENDPOINTS) <= endpoints
    assert {url for url in endpoints - set(ENDPOINTS) if not reason_for("POST", url)} == set()


def test_every_endpoint_is_told_in_the_lines_that_are_read_back() -> None:
    sent = LINES["batch"]
    assert isinstance(sent, Typed)
    assert set(sent.table) == set(ENDPOINTS)
    for url, route in ENDPOINTS.items():
        line = sent.table[url].fields["body"]
        assert isinstance(line, Obj)
        assert isinstance(route.request, Obj)
        assert set(line.fields) == set(route.request.fields)
