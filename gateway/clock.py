"""The time of day, in the units that records hold."""

from __future__ import annotations

import time


def now_us() -> int:
    return time.time_ns() // 1000


def now_ms() -> int:
    return time.time_ns() // 1_000_000
