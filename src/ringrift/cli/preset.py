"""Preset: what ``ringrift run`` does unless it is told otherwise: which workload, how many nodes, which numbers."""

import os
from collections.abc import Mapping, Sequence
from importlib.util import find_spec

from ringrift.cli.environment import Effective
from ringrift.kernel.value import Value
from ringrift.pipeline.line import Line

REAL, STAND_IN = "reversi", "fake"
NEEDS = ("numpy", "numba", "torch", "safetensors")
INSTALL = "pip install 'ringrift[train]'"

BASELINES: Mapping[str, Sequence[str]] = {"square8_2p": ("uct:200",)}
"""Who else the champion must beat, by variant, where the real workload has run."""

REVERSI: Mapping[str, object] = {
    # A batch fills the network: 64 games at once reach two thirds of the speed.  It takes about 6 s on one core, and a
    # stage that becomes ready waits for no longer than that.
    "policy.games_per_batch": 256,
    # About 45,000 new positions of square8 before the next training: 8 to 10 rounds in ten minutes on two cores.
    "policy.games_per_export": 768,
    # The newest 2,560 games, 150,000 positions: older ones were played by models that are far behind.
    "policy.window_batches_max": 10,
    # One that runs and one that waits, for each variant: more would be played with a model that is champion no more.
    "policy.play_jobs_open": 2,
    # 64 games at once; two jobs, so that both cores can judge a candidate.
    "policy.blocks_per_job": 32,
    "policy.match_jobs_open": 2,
    # A round gains 50 Elo and more for as long as a run of minutes lasts; a test for 60 needs half the games of one for
    # 35, and never more than 400 games.
    "policy.gate.elo_1": 60.0,
    "policy.gate.blocks_max": 200,
    # Players and trainers end between two plies or steps; who takes longer is stuck.
    "work.grace_seconds": 15.0,
    # As many workers as cores, so one thread each.
    "work.params": {"threads": 1},
}

MINUTES = 10.0
"""How long the real workload runs: enough for the claims with a margin, short enough to wait for."""
ITERATIONS = 3
"""Promotions for each variant where a run has no time limit."""


class Choice(Value):
    """Which workload runs, and what a person is told about that."""

    workload: str
    note: str = ""


def lacking() -> tuple[str, ...]:
    """What the real workload needs and is not installed."""
    return tuple(name for name in NEEDS if find_spec(name) is None)


def choose(found: Effective, known: Sequence[Line], lacks: Sequence[str]) -> Choice:
    """The workload that was asked for, else the one that this store began with, else the real one if it can run."""
    if "work.workload" in found.origins:
        return Choice(workload=found.settings.work.workload)
    best = STAND_IN if lacks else REAL
    if known and known[0].workload != best:
        begun = known[0].workload
        return Choice(workload=begun, note=f"this store was begun with {begun}; set RINGRIFT_HOME for another one")
    if lacks:
        note = f"{', '.join(lacks)} not installed, so {STAND_IN} stands in and nothing is learnt: {INSTALL}"
        return Choice(workload=STAND_IN, note=note)
    return Choice(workload=REAL)


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0))


def of(workload: str, nodes: int, cores: int) -> dict[str, object]:
    """The preset for *workload* on a local cluster of *nodes*."""
    if workload != REAL:
        return {"work.workload": workload}
    return {"work.workload": workload, "work.slots": max(cores // nodes, 1), **REVERSI}


def nodes(workload: str) -> int:
    """How many nodes a local cluster has: two share the cores between them, where work is real."""
    return 2 if workload == REAL else 3


def minutes(workload: str) -> float:
    """How long a run goes on; 0 where something else ends it."""
    return MINUTES if workload == REAL else 0.0
