"""Session: what one ``ringrift run`` keeps in the store for the next one, and what it plans from that."""

import argparse
import asyncio
from collections.abc import Sequence
from pathlib import Path
from random import SystemRandom

import msgspec

from ringrift.cli import preset
from ringrift.cli.environment import Effective
from ringrift.cli.store import existing
from ringrift.kernel.errors import SettingsError, within
from ringrift.kernel.settings import StoreSettings
from ringrift.kernel.value import Value
from ringrift.pipeline.line import Line, Stage
from ringrift.pipeline.records import lines
from ringrift.store.ports import Put, Reads, Store

KIND, ID = "session", "run"
SEED_BITS = 31  # short enough to be typed again
MINUTES_MAX = 7 * 24 * 60.0
RESERVE_SHARE, RESERVE_SECONDS_MAX = 0.1, 60.0
"""What is kept of a run's minutes for its proof, which takes 60 to 100 seconds of one core."""
LATE_SECONDS_MAX = 120.0
"""How much later than its minutes a run may end, proof included: what a slow machine may take longer."""
LOOP_SECONDS_MIN = 1.0


class Session(Value):
    """What a run leaves to the next one on the same store."""

    seed: int
    spent_seconds: float = 0.0
    """Of its minutes, if it was cut short: the next run has what is left."""


class Known(Value):
    """What a store says before a run begins."""

    lines: tuple[Line, ...] = ()
    session: Session | None = None


class Times(Value):
    """How long a run goes on: its loop, and all of it with the proof.  None: until it is stopped."""

    loop_seconds: float | None = None
    all_seconds: float | None = None


def known(settings: StoreSettings) -> Known:
    """What the store of *settings* says; nothing if there is none."""
    return asyncio.run(_known(settings)) if Path(settings.path).exists() else Known()


async def _known(settings: StoreSettings) -> Known:
    async with existing(settings) as store, store.read() as view:
        return Known(lines=tuple(await lines(view)), session=await load(view))


async def load(view: Reads) -> Session | None:
    """What the last run left."""
    body = (await view.get(KIND, [ID])).get(ID)
    return None if body is None else msgspec.json.decode(body, type=Session)


async def save(store: Store, session: Session) -> None:
    """Leave *session* to the next run."""
    async with store.begin() as tx:
        await tx.put([Put(kind=KIND, id=ID, body=msgspec.json.encode(session))])


def seed_of(asked: int | None, found: Effective, before: Known, workload: str) -> int:
    """The seed of a run: the store's own, else what was asked for, else another one each time.

    Raises SettingsError if another one is asked for than the store was begun with.
    """
    set_by_hand = found.settings.policy.seed if "policy.seed" in found.origins else None
    wanted = asked if asked is not None else set_by_hand
    if wanted is not None:
        within("--seed", wanted, 0, 2**63 - 1)
    if before.session is not None:
        if wanted not in (None, before.session.seed):
            limit = f"this store was begun with {before.session.seed}; set RINGRIFT_HOME for another one"
            raise SettingsError("--seed", wanted, limit)
        return before.session.seed
    if wanted is not None:
        return wanted
    # A store that was begun without a session, or by what only stands in: the same each time, as settings say.
    if before.lines or workload != preset.REAL:
        return found.settings.policy.seed
    return SystemRandom().getrandbits(SEED_BITS)


def times(options: argparse.Namespace, workload: str, before: Known) -> Times:
    """How long the run goes on; one that was cut short has what is left of its minutes.  Raises SettingsError."""
    minutes = options.minutes if options.minutes is not None else preset.minutes(workload)
    within("--minutes", minutes, 0, MINUTES_MAX)
    if minutes == 0:
        return Times()
    seconds = 60.0 * minutes
    spent = before.session.spent_seconds if before.session else 0.0
    left = seconds - spent if spent < seconds else seconds
    reserve = min(RESERVE_SHARE * seconds, RESERVE_SECONDS_MAX)
    return Times(loop_seconds=max(left - reserve, LOOP_SECONDS_MIN), all_seconds=left + LATE_SECONDS_MAX)


def target(known: Sequence[Line], wanted: Sequence[str], iterations: int) -> int | None:
    """Promotions after which a line rests: a run that was cut short goes on to its end, a finished one starts anew."""
    if iterations < 0:
        raise SettingsError("--iterations", iterations, "must be 0 or more")
    if iterations == 0:
        return None
    mine = {line.variant: line for line in known if line.variant in wanted}
    resting = [line.iteration for line in mine.values() if line.stage is Stage.RESTING]
    if resting and len(resting) == len(wanted):
        return max(resting) + iterations
    return max([iterations, *resting])
