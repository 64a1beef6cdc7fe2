"""Preset: what ``ringrift run`` does unless it is told otherwise: which workload, how many nodes, which numbers."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec

import msgspec

from ringrift.cli.environment import Effective
from ringrift.kernel.errors import ChildDied
from ringrift.kernel.settings import Settings
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
    # A worker says nothing while numba compiles, which takes 11 s of a core the first time and longer where others want
    # it too.  One that dies is noticed at once all the same.
    "work.lease_seconds": 60.0,
    # Players and trainers end between two plies or steps; who takes longer is stuck.
    "work.grace_seconds": 15.0,
}

MINUTES = 10.0
"""How long the real workload runs: enough for the claims with a margin, short enough to wait for."""
ITERATIONS = 3
"""Promotions for each variant where a run has no time limit."""


MEASURE_SECONDS_MAX = 120.0
_MEASURE = "import json; from ringrift_reversi.workload import Reversi; print(json.dumps(Reversi().measured_params()))"


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


def measured(settings: Settings) -> Settings:
    """*settings* with what this machine does best among the parameters of jobs; what somebody has set stays.

    It is tried out once for the whole run, so that the same job makes the same blob on every node, and in a process of
    its own, because this one never loads what it takes.  Raises ChildDied.
    """
    work = settings.work
    if work.workload != REAL:
        return settings
    try:
        ended = subprocess.run(
            [sys.executable, "-c", _MEASURE], capture_output=True, text=True, timeout=MEASURE_SECONDS_MAX
        )
    except subprocess.TimeoutExpired as slow:
        raise ChildDied(f"{REAL} could not be tried out within {MEASURE_SECONDS_MAX:g} s") from slow
    if ended.returncode:
        raise ChildDied(f"{REAL} cannot run here: {ended.stderr.strip()[-500:]}")
    params = {**json.loads(ended.stdout), **work.params}
    return msgspec.structs.replace(settings, work=msgspec.structs.replace(work, params=params))
