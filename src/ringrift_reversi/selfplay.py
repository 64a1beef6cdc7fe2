"""Selfplay: the job that plays a batch; killed, it goes on from what it kept, games under way included."""

from dataclasses import fields

import numpy as np

from ringrift.kernel.clock import Clock
from ringrift.workload.api import JobContext, JobSpec
from ringrift_reversi import order, records, tensors
from ringrift_reversi.asked import Pulse, whole
from ringrift_reversi.evaluate import Evaluator
from ringrift_reversi.net import Net
from ringrift_reversi.order import KEEP_SECONDS, Batch, Order, Style
from ringrift_reversi.play import SLOTS_MAX, Slots
from ringrift_reversi.records import Games
from ringrift_reversi.topology import VARIANTS, topology
from ringrift_reversi.tree import F32, I8

SLOTS = 256
_TREE_BYTES_MAX = 256 * 1024 * 1024
_EDGE_BYTES = 19  # of a tree, for each node and cell


def play(job: JobSpec, ctx: JobContext, clock: Clock, *, model: Net, asked: Order, dtype: str) -> Batch:
    """Play the games of *job*, or as many as there is time for; at least one."""
    total, style = asked.games, asked.style
    wanted = whole(job, "slots", SLOTS, 1, SLOTS_MAX)
    slots = Slots(job.variant, slots=min(wanted, total, _room(job, style)), games=total, seed=job.seed, style=style)
    _restore(slots, ctx.resume(), asked.identity, VARIANTS[job.variant][1])
    pulse = Pulse(ctx, clock)
    evaluator = Evaluator(model, rows=slots.size, dtype=dtype)

    def evaluate(boards: I8, to_move: I8) -> tuple[F32, F32]:
        pulse()
        return evaluator(boards, to_move)

    began = kept = clock.tick()
    plies, before = 0, len(slots.finished)
    while len(slots.live):
        if ctx.should_stop():
            if slots.finished:
                break
            slots.forget_all_but_one()
        plies += len(slots.live)
        slots.step(evaluate)
        pulse.done = len(slots.finished) / total
        if clock.tick() - kept >= KEEP_SECONDS:
            ctx.checkpoint(_state(slots, asked.identity))
            kept = clock.tick()
    games = [game for _, game in sorted(slots.finished, key=lambda each: each[0])]
    said = order.metrics(len(games), len(games) - before, plies, clock.tick() - began)
    return Batch(games=records.joined(games), metrics=said)


def _room(job: JobSpec, style: Style) -> int:
    """How many trees fit into the memory that a player may take."""
    cells = topology(VARIANTS[job.variant][0]).cells
    return max(1, _TREE_BYTES_MAX // ((max(style.sims, style.fast_sims) + 1) * cells * _EDGE_BYTES))


def _state(slots: Slots, identity: str) -> bytes:
    live, where = slots.state()
    done = records.joined([records.empty(slots.players), *(game for _, game in slots.finished)])
    arrays = {f"live.{name}": array for name, array in records.arrays(live).items()}
    arrays |= {f"done.{name}": array for name, array in records.arrays(done).items()}
    arrays |= {f"where.{name}": array for name, array in where.items()}
    arrays["numbers"] = np.array([number for number, _ in slots.finished], np.int64)
    return tensors.pack(arrays, {"identity": identity})


def _restore(slots: Slots, data: bytes | None, identity: str, players: int) -> None:
    """Go on from *data* if it is a checkpoint of this very job; else begin anew."""
    if data is None:
        return
    try:
        arrays, words = tensors.unpack(data)
    except ValueError:
        return  # torn or foreign: what it held is played again
    if words.get("identity") != identity:
        return
    named = [field.name for field in fields(Games)]
    live = Games(**{name: arrays[f"live.{name}"] for name in named})
    done = Games(**{name: arrays[f"done.{name}"] for name in named})
    slots.restore(live, {name: arrays[f"where.{name}"] for name in ("slot", "number", "taken")})
    numbers = arrays["numbers"].tolist()
    slots.finished = [(number, records.picked(done, np.array([row]))) for row, number in enumerate(numbers)]
