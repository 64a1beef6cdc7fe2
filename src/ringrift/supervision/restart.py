"""Restart: what follows from a daemon's failure, as a pure function of its recent failures."""

from random import Random

from ringrift.kernel.backoff import Backoff
from ringrift.kernel.value import Value
from ringrift.kernel.watch import recent
from ringrift.supervision.spec import Restart


class Again(Value):
    """Start it again in *seconds*; these failures are on its record."""

    seconds: float
    failures: tuple[float, ...]


class Enough(Value):
    """Do not start it again by yourself."""

    failures: tuple[float, ...]


def judge(failures: tuple[float, ...], tick: float, rule: Restart, rng: Random | None = None) -> Again | Enough:
    """What to do about one more failure at *tick*, after *failures*; *rng* spreads the pauses by the rule's jitter."""
    failures = (*recent(failures, tick, rule.seconds), tick)
    backoff = Backoff(
        first_seconds=rule.first_seconds, seconds_max=rule.seconds_max, tries=rule.times + 1, jitter=rule.jitter
    )
    delay = backoff.delay(len(failures), rng)
    return Enough(failures=failures) if delay is None else Again(seconds=delay, failures=failures)
