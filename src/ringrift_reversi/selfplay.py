"""Selfplay: the job that plays a batch; after a kill it continues from its checkpoint, unfinished games included."""

from dataclasses import fields

import numpy as np

from ringrift.workload.api import JobContext, JobSpec
from ringrift.workload.clock import Clock
from ringrift.workload.kit import int_param
from ringrift_reversi import play_spec, records, tensors
from ringrift_reversi.evaluate import Evaluator
from ringrift_reversi.net import Net
from ringrift_reversi.params import Heartbeat
from ringrift_reversi.play import SLOTS_MAX, Slots
from ringrift_reversi.play_spec import Batch, Checkpoints, PlaySpec, Style
from ringrift_reversi.records import Games
from ringrift_reversi.topology import VARIANTS, topology
from ringrift_reversi.tree import F32, I8

_SLOTS = 256
_TREE_BYTES_MAX = 256 * 1024 * 1024
_EDGE_BYTES = 19  # of a tree, for each node and cell


def play(job: JobSpec, ctx: JobContext, clock: Clock, *, model: Net, spec: PlaySpec, dtype: str) -> Batch:
    """Play the games of *job*, or as many as are done when it should stop; at least one."""
    total, style = spec.games, spec.style
    count = min(int_param(job, "slots", _SLOTS, 1, SLOTS_MAX), total, _trees_max(job, style))
    slots = Slots(job.variant, slots=count, games=total, seed=job.seed, style=style)
    _restore(slots, ctx.resume(), spec.identity, VARIANTS[job.variant][1])
    heartbeat = Heartbeat(ctx, clock)
    evaluator = Evaluator(model, rows=slots.size, dtype=dtype)

    def evaluate(boards: I8, to_move: I8) -> tuple[F32, F32]:
        heartbeat()
        return evaluator(boards, to_move)

    began, plies, before = clock.tick(), 0, len(slots.finished)
    checkpoints = Checkpoints(job, clock, before)
    while len(slots.live):
        if ctx.should_stop():
            if slots.finished:
                break
            slots.drop_all_but_one()
        plies += len(slots.live)
        slots.step(evaluate)
        heartbeat.done = len(slots.finished) / total
        if checkpoints.is_due(len(slots.finished)):
            ctx.checkpoint(_state(slots, spec.identity))
    games = [game for _, game in sorted(slots.finished, key=lambda numbered: numbered[0])]
    metrics = play_spec.metrics(len(games), len(games) - before, plies, clock.tick() - began)
    return Batch(games=records.join(games), metrics=metrics)


def _trees_max(job: JobSpec, style: Style) -> int:
    """How many trees fit into the memory that a play job may use."""
    cells = topology(VARIANTS[job.variant][0]).cells
    return max(1, _TREE_BYTES_MAX // ((max(style.sims, style.fast_sims) + 1) * cells * _EDGE_BYTES))


def _state(slots: Slots, identity: str) -> bytes:
    live, where = slots.state()
    done = records.join([records.empty(slots.players), *(game for _, game in slots.finished)])
    arrays = {f"live.{name}": array for name, array in records.arrays(live).items()}
    arrays |= {f"done.{name}": array for name, array in records.arrays(done).items()}
    arrays |= {f"where.{name}": array for name, array in where.items()}
    arrays["numbers"] = np.array([number for number, _ in slots.finished], np.int64)
    return tensors.compress(tensors.pack(arrays, {"identity": identity}))


def _restore(slots: Slots, data: bytes | None, identity: str, players: int) -> None:
    """Continue from *data* if it is a checkpoint of this very job; else start over."""
    if data is None:
        return
    try:
        arrays, meta = tensors.unpack(data, records.BATCH_BYTES_MAX)
    except ValueError:
        return  # damaged or foreign: its games are played again
    if meta.get("identity") != identity:
        return
    names = [field.name for field in fields(Games)]
    live = Games(**{name: arrays[f"live.{name}"] for name in names})
    done = Games(**{name: arrays[f"done.{name}"] for name in names})
    slots.restore(live, {name: arrays[f"where.{name}"] for name in ("slot", "number", "taken")})
    numbers = arrays["numbers"].tolist()
    slots.finished = [(number, records.pick(done, np.array([row]))) for row, number in enumerate(numbers)]
