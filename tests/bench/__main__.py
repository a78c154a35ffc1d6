"""`python -m tests.bench`: the gateway beside its peers, as tables in Markdown on standard output; progress goes to standard
error. `python -m tests.bench.timing` looks for what an answer's time tells."""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.bench.bar import bar_table, target_table
from tests.bench.measures import MEASURES, TARGETS, Bench, Options, Samples
from tests.bench.targets import missing


def main() -> int:
    # Ended from outside, it still ends what it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    args = _parser().parse_args()
    if lacking := missing():
        print("skipped:", *lacking, sep="\n  ")
        return 0
    options = Options(
        rounds=args.rounds,
        seconds=args.seconds,
        connections=args.connections,
        idle_streams=args.idle_streams,
        stored=(1_000, args.stored),
        targets=args.targets,
    )
    began = time.monotonic()
    samples: dict[str, Samples] = {}
    with tempfile.TemporaryDirectory(prefix="bench") as name:
        folder = Path(name)
        # nginx's worker may run as another user.
        folder.chmod(0o755)
        bench = Bench(options, folder)
        for measure in args.only:
            samples |= MEASURES[measure](bench)
    print(bar_table(samples), target_table(samples), sep="\n\n")
    print(f"\n{args.rounds} rounds of {args.seconds:g} s, {time.monotonic() - began:.0f} s in all; {_python()}.")
    print(*(f"Skipped: {reason}" for reason in bench.skips), sep="\n")
    if args.raw:
        args.raw.write_text(json.dumps({"skipped": bench.skips, "samples": samples}, indent=1))
    return 0


def _python() -> str:
    """What the gateway ran on: a build without profile-guided optimization costs a tenth to a fifth."""
    optimized = "--enable-optimizations" in (sysconfig.get_config_var("CONFIG_ARGS") or "")
    return f"CPython {platform.python_version()} {'with' if optimized else 'without'} PGO on {os.cpu_count()} cores"


def _parser() -> argparse.ArgumentParser:
    usual = Options()
    parser = argparse.ArgumentParser(
        "python -m tests.bench", description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )

    def option(name: str, read: Callable[[str], Any], default: Any, text: str) -> None:
        parser.add_argument(name, type=read, default=default, help=text)

    option("--rounds", _number(1, 50), usual.rounds, "rounds of each measure; fewer than 5 are a trial")
    option("--seconds", _number(1, 60), usual.seconds, "seconds of load in a round")
    option("--only", _names(tuple(MEASURES)), ",".join(MEASURES), "measures, with commas")
    option("--targets", _names(TARGETS), ",".join(TARGETS), "what is measured, with commas")
    option("--connections", _number(1, 1_000), usual.connections, "connections of wrk, at once")
    option("--idle-streams", _number(10, 900), usual.idle_streams, "streams kept open")
    option("--stored", _number(2_000, 10_000_000), usual.stored[1], "stored IDs after growth")
    parser.add_argument("--raw", type=Path, metavar="FILE", help="write every round's figures there, as JSON")
    return parser


def _number(low: int, high: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        number = int(text)
        if not low <= number <= high:
            raise argparse.ArgumentTypeError(f"it goes from {low:,} to {high:,}")
        return number

    return read


def _names(known: tuple[str, ...]) -> Callable[[str], tuple[str, ...]]:
    def read(text: str) -> tuple[str, ...]:
        names = tuple(text.split(","))
        if unknown := set(names) - set(known):
            raise argparse.ArgumentTypeError(f"{', '.join(sorted(unknown))} is not one of {', '.join(known)}")
        return names

    return read


if __name__ == "__main__":
    sys.exit(main())
