"""Log lines and metrics: what operators see, and what they must not."""

from __future__ import annotations

import ast
import io
import json
import logging
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client import generate_latest

import gateway
from gateway.telemetry import FORBIDDEN, REQUEST_ID, JsonFormatter, Metrics, configure_logging, metrics_app
from gateway.transport.limits import Limits
from gateway.transport.server import running
from tests.transport.raw import exchange, request


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    stream = io.StringIO()
    configure_logging("info", lambda text: re.sub(r"resp_\w+", "[id]", text), stream)
    yield stream
    root.handlers[:] = handlers
    root.setLevel(level)


LOG = logging.getLogger("gateway.test")


def lines(stream: io.StringIO) -> list[Any]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_is_one_json_object_with_event_request_and_fields(written: io.StringIO) -> None:
    token = REQUEST_ID.set("req_1")
    LOG.info("stream.closed", extra={"fields": {"reason": "client_closed", "events": 3, "seconds": 0.5, "last": None}})
    REQUEST_ID.reset(token)
    LOG.debug("not.shown")
    (line,) = lines(written)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line.pop("time"))
    assert line == {
        "level": "info",
        "logger": "gateway.test",
        "event": "stream.closed",
        "request_id": "req_1",
        "fields": {"reason": "client_closed", "events": 3, "seconds": 0.5, "last": None},
    }


@pytest.mark.parametrize("name", sorted(FORBIDDEN))
def test_a_forbidden_field_is_not_written_whatever_its_case(written: io.StringIO, name: str) -> None:
    LOG.warning("key.checked", extra={"fields": {name.upper(): "s3cret", "status": 401}})
    assert "s3cret" not in written.getvalue()
    assert lines(written)[0]["refused_fields"] == [name.upper()]
    assert lines(written)[0]["fields"] == {"status": 401}


def test_raw_ids_are_redacted_in_every_string(written: io.StringIO) -> None:
    LOG.error("upstream said %s", "resp_abc", extra={"fields": {"detail": "about resp_abc", "resp_abc": 1}})
    assert "resp_abc" not in written.getvalue()
    assert lines(written)[0]["event"] == "upstream said [id]"


def test_an_exception_shows_its_type_and_place_and_not_its_text(written: io.StringIO) -> None:
    try:
        raise LookupError("resp_abc of tenant")
    except LookupError:
        LOG.exception("request.failed")
    (line,) = lines(written)
    assert line["error"] == "LookupError"
    assert re.fullmatch(
        r"test_telemetry\.py:\d+ test_an_exception_shows_its_type_and_place_and_not_its_text", line["trace"][-1]
    )
    assert "of tenant" not in written.getvalue()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(), st.text())
def test_hostile_text_stays_within_its_line_and_its_string(name: str, value: str) -> None:
    record = logging.LogRecord("a", logging.INFO, "", 0, value.replace("%", ""), None, None)
    record.fields = {name: value}
    text = JsonFormatter().format(record)
    assert text.isascii()
    assert text.isprintable()
    assert json.loads(text)["event"] == value.replace("%", "")[:1000]


def test_a_long_value_is_cut(written: io.StringIO) -> None:
    LOG.info("a.b", extra={"fields": {"detail": "x" * 10_000}})
    assert len(written.getvalue()) < 1500


def test_every_log_call_of_the_gateway_has_a_constant_text_and_gives_data_as_fields() -> None:
    """What else stands in `extra` is on no line."""
    levels = {"debug", "info", "warning", "error", "critical", "exception"}
    calls = 0
    for file in sorted(Path(str(gateway.__file__)).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in levels):
                continue
            if ast.unparse(node.func.value).lower().strip("_") not in {"log", "logger"}:
                continue
            calls += 1
            where = f"{file.name}:{node.lineno}"
            assert isinstance(node.args[0], ast.Constant), where
            for extra in (keyword.value for keyword in node.keywords if keyword.arg == "extra"):
                assert isinstance(extra, ast.Dict), where
                assert [ast.unparse(key) for key in extra.keys if key] == ["'fields'"], where
    assert calls > 15


def test_an_exception_without_one_is_no_failure(written: io.StringIO) -> None:
    LOG.error("a.b", exc_info=sys.exc_info())
    assert "error" not in lines(written)[0]


async def test_metrics_are_served_on_their_own_and_nothing_else_is() -> None:
    metrics = Metrics()
    metrics.request("responses.create", "POST", 200)
    metrics.request("responses.create", "POST", 201)
    metrics.request("unknown", "BREW", 404)
    metrics.decision("deny", "not_owned")
    metrics.upstream_call(200, 1.5)
    metrics.upstream_call(0, 0.1)
    metrics.stream_opened("sse")
    async with running(metrics_app(metrics), Limits()) as server:
        answer = await exchange(server.port, request("/metrics"))
        assert (await exchange(server.port, request("/"))).status == 404
        assert (await exchange(server.port, request("/metrics", "Content-Length: 0", method=b"POST"))).status == 405
        assert (await exchange(server.port, request("/metrics"))).status == 200
    text = answer.body.decode()
    assert 'coatcheck_requests_total{method="POST",route="responses.create",status="2xx"} 2.0' in text
    assert 'coatcheck_requests_total{method="other",route="unknown",status="4xx"} 1.0' in text
    assert 'coatcheck_decisions_total{outcome="deny",reason="not_owned"} 1.0' in text
    assert 'coatcheck_upstream_calls_total{status="failed"} 1.0' in text
    assert 'coatcheck_open_streams{form="sse"} 1.0' in text


def test_a_time_is_counted_in_each_bucket_that_it_is_not_above() -> None:
    metrics = Metrics()
    for seconds in (0.01, 0.25, 0.3, 1000.0):
        metrics.upstream_call(200, seconds)
    found = {
        sample.labels.get("le", sample.name): sample.value
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.name.startswith("coatcheck_upstream_seconds")
    }
    assert [found[le] for le in ("0.05", "0.1", "0.25", "0.5", "600.0", "+Inf")] == [1, 1, 2, 3, 3, 4]
    assert found["coatcheck_upstream_seconds_count"] == 4
    assert found["coatcheck_upstream_seconds_sum"] == 1000.56


def test_a_stream_that_is_closed_is_not_counted_as_open() -> None:
    metrics = Metrics()
    metrics.stream_opened("sse")
    metrics.stream_opened("sse")
    metrics.stream_closed("sse")
    assert metrics.registry.get_sample_value("coatcheck_open_streams", {"form": "sse"}) == 1


def test_no_metric_has_a_label_for_what_a_client_chooses() -> None:
    metrics = Metrics()
    metrics.request("responses.create", "POST", 200)
    labels = {label for family in metrics.registry.collect() for sample in family.samples for label in sample.labels}
    assert labels <= {"route", "method", "status", "outcome", "reason", "form", "le"}


def test_a_watched_number_is_asked_for_at_each_reading() -> None:
    metrics, numbers = Metrics(), {"file": 1, "s3": 2}
    metrics.watch("coatcheck_waiting", "What waits.", lambda: numbers, label="anchor")
    metrics.watch("coatcheck_one", "One number.", lambda: {"": 7})
    numbers["s3"] = 5
    shown = generate_latest(metrics.registry).decode()
    assert 'coatcheck_waiting{anchor="s3"} 5.0' in shown
    assert "coatcheck_one 7.0" in shown
