"""A model's name is written into the log: it must not carry an ID of the service there."""

from __future__ import annotations

import pytest

from gateway.errors import Problem, Reason
from gateway.pipeline.forward import check_model
from gateway.surfaces.table import BY_ACTION

RAW = "resp_" + "0a1b2c3d4e" * 5


@pytest.mark.parametrize("name", [RAW, f"x/{RAW}", f"{RAW}:x", f"gpt-5:org-{RAW[5:29]}:x", f"a@{RAW}.b"])
def test_a_name_with_a_raw_id_in_it_reads_as_a_model_that_does_not_exist(name: str) -> None:
    create, retrieve = BY_ACTION["responses.create"], BY_ACTION["models.retrieve"]
    segments = {"model": name.replace("/", "%2F")}
    for route, body in ((create, {"model": name}), (retrieve, None)):
        with pytest.raises(Problem) as problem:
            check_model(route, segments, body)
        assert problem.value.reason is Reason.NOT_RECORDED


@pytest.mark.parametrize("name", ["gpt-5-mini-2025-08-07", "openai/gpt-oss-120b", "o3", "text-embedding-3-large"])
def test_other_names_pass(name: str) -> None:
    assert check_model(BY_ACTION["responses.create"], {}, {"model": name}) == name
