"""Circuit breaker: stops calling an upstream that cannot be reached. Pure: the clock's reading is passed in."""

from enum import Enum, auto


class Permit(Enum):
    """How a call was let through: in normal times, or as the one probe of an open breaker."""

    FREE = auto()
    PROBE = auto()


class Verdict(Enum):
    """What a call told about the upstream: REACHED, UNREACHABLE (which it is for us, too, once it takes
    our key no more), or NOTHING (cancelled, or failed before it could tell)."""

    REACHED = auto()
    UNREACHABLE = auto()
    NOTHING = auto()


class Breaker:
    """Opens after `failures` calls in a row found the upstream unreachable; after `open_s` one probe at a time may pass."""

    __slots__ = ("_failures", "_in_a_row", "_open_s", "_open_until", "_probing")

    def __init__(self, failures: int, open_s: float) -> None:
        self._failures = failures
        self._open_s = open_s
        self._in_a_row = 0
        self._open_until = 0.0
        self._probing = False

    def admit(self, now: float) -> Permit | None:
        """A permit, for which exactly one `record` must follow, or None while the breaker is open."""
        if self._in_a_row < self._failures:
            return Permit.FREE
        if now < self._open_until or self._probing:
            return None
        self._probing = True
        return Permit.PROBE

    def is_open(self, now: float) -> bool:
        """Whether calls are refused at `now`; the call that may try whether it is over is not counted."""
        return self._in_a_row >= self._failures and now < self._open_until

    def retry_after_s(self, now: float) -> float:
        """Seconds until a refused caller should come again."""
        return max(self._open_until - now, 0.0) or self._open_s

    def record(self, permit: Permit, verdict: Verdict, now: float) -> None:
        """Note how a permitted call ended. A probe that told NOTHING leaves the next one free to go."""
        if permit is Permit.PROBE:
            self._probing = False
        if verdict is Verdict.REACHED:
            self._in_a_row = 0
        elif verdict is Verdict.UNREACHABLE:
            self._in_a_row += 1
            if self._in_a_row >= self._failures:
                self._open_until = now + self._open_s
