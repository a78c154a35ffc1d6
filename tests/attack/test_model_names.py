"""A model's name is written into the log: it must not carry an ID of the service there."""

from __future__ import annotations

import pytest

from gateway.errors import Problem, Reason
from gateway.ids.form import Parsed
from gateway.pipeline.forward import check_model
from gateway.rewrite.inbound import collect
from gateway.rewrite.named import Collected, Reference
from gateway.surfaces import models
from gateway.surfaces.table import BY_ACTION
from tests.rewrite.keys import ALICE

RAW = "resp_" + "0a1b2c3d4e" * 5


@pytest.mark.parametrize("name", [RAW, f"x/{RAW}", f"{RAW}:x", f"gpt-5:org-{RAW[5:29]}:x", f"a@{RAW}.b"])
def test_a_name_with_a_raw_id_in_it_reads_as_a_model_that_does_not_exist(name: str) -> None:
    for segments, body in (({}, {"model": name}), ({"model": name.replace("/", "%2F")}, None)):
        with pytest.raises(Problem) as problem:
            check_model(segments, body, Collected())
        assert problem.value.reason is Reason.NOT_RECORDED


@pytest.mark.parametrize("name", ["FT:gpt-4o-mini:acme:coats:B7R9VjQd", "Ft:x", "-ft:gpt-4o-mini:acme:coats:B7R9VjQd"])
def test_a_tuned_models_name_in_another_spelling_reads_as_one_that_does_not_exist(name: str) -> None:
    """A policy would read it as another model than the service might."""
    for body in ({"model": name}, {"moderation": {"model": name}}):
        with pytest.raises(Problem) as problem:
            check_model({}, body, Collected())
        assert problem.value.reason is Reason.NOT_RECORDED


def test_a_tuned_models_name_in_another_spelling_names_nothing_where_a_model_stands() -> None:
    grader = {"type": "score_model", "model": "FT:gpt-4o-mini:acme:coats:B7R9VjQd"}
    body = {"model": "gpt-5", "method": {"reinforcement": {"grader": grader}}}
    with pytest.raises(Problem) as problem:
        collect(BY_ACTION["fine_tuning.jobs.create"], {}, [], body, ALICE.form.verify)
    assert problem.value.reason is Reason.NOT_RECORDED


@pytest.mark.parametrize("name", ["gpt-5-mini-2025-08-07", "openai/gpt-oss-120b", "o3", "text-embedding-3-large"])
def test_other_names_pass(name: str) -> None:
    assert check_model({}, {"model": name}, Collected()) == name


def test_a_fine_tuned_models_raw_name_is_not_written_down() -> None:
    name = "ft:gpt-4o-mini:acme:coats:B7R9VjQd"
    for verified, written in ((None, ""), (Parsed("ft:", 1, 1, bytes(16)), name)):
        collected = Collected([Reference(models.NAMED, name, "model", required=True, parsed=verified)])
        assert check_model({}, {"model": name}, collected) == written
