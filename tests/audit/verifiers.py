"""Who verifies in the tests. Each takes the arguments of `audit verify`.

Whatever one of them is asked, every other one is asked too, and they must agree. They share no code: the second one was written
from docs/audit-format.md alone.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gateway.__main__ import main
from tests.audit import second_verifier


@dataclass(frozen=True, slots=True)
class Answer:
    """What one of them says."""

    code: int
    first_bad: int | None
    """The number of the first bad event, if one was named."""


Verifier = Callable[[Sequence[str]], Answer]


def gateways(arguments: Sequence[str]) -> Answer:
    """`python -m gateway audit verify`."""
    return _answer(lambda: main(["audit", "verify", *arguments]), r"^(?:NOT \w+|also): events? ([\d,]+)")


def second(arguments: Sequence[str]) -> Answer:
    """`python -m tests.audit.second_verifier`."""
    return _answer(lambda: second_verifier.main(arguments), r"first bad event: ([\d,]+)")


VERIFIERS: tuple[Verifier, ...] = (gateways, second)


def codes(path: Path, key: Path, anchor: Path | None = None, *, accept_loss: bool = False) -> list[int]:
    """What each verifier says. AssertionError where they name different events."""
    arguments = [str(path), "--key", str(key)]
    if anchor is not None:
        arguments += ["--anchor", str(anchor)]
    if accept_loss:
        arguments.append("--accept-loss")
    answers = [verify(arguments) for verify in VERIFIERS]
    assert len(set(answers)) == 1, answers
    return [answer.code for answer in answers]


def _answer(run: Callable[[], int], names: str) -> Answer:
    with contextlib.redirect_stdout(io.StringIO()) as said:
        code = run()
    named = re.search(names, said.getvalue(), re.MULTILINE)
    return Answer(code, int(named[1].replace(",", "")) if named else None)
