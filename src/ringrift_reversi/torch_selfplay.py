"""Selfplay on a GPU: the job that plays a batch with ``torch_play``; it needs torch, numpy and safetensors alone.

Killed, it goes on from the games that had ended; those under way are played again, since most of 16,384 games end
within the same second anyway.
"""

import threading
from collections.abc import Iterator
from functools import partial

import numpy as np
import numpy.typing as npt
import torch

from ringrift.kernel.clock import Clock, SystemClock
from ringrift.workload.api import JobContext, JobResult, JobSpec
from ringrift_reversi import net, order, records, tensors, torch_play
from ringrift_reversi.asked import Pulse, only, read, whole, word
from ringrift_reversi.net import MODEL_BYTES_MAX, Net
from ringrift_reversi.order import KEEP_SECONDS, Batch, Order
from ringrift_reversi.records import Games
from ringrift_reversi.topology import VARIANTS
from ringrift_reversi.torch_play import Finished

SLOTS_MAX = 65_536
DTYPES = ("bfloat16", "float32")
BREATH_SECONDS, PLY_SECONDS_MAX = 5.0, 600.0
Numbers = npt.NDArray[np.int64]


def run(job: JobSpec, ctx: JobContext, clock: Clock | None = None, *, device: str = "cuda") -> JobResult:
    """Do the play job *job* on *device*.  Raises Refused, or RuntimeError where there is no such device."""
    blob = only(job, "model")
    model = read(ctx, "model", blob, MODEL_BYTES_MAX, partial(net.load, variant=job.variant))
    asked = order.order_of(job, blob)
    return order.published(job, ctx, asked, play(job, ctx, clock or SystemClock(), model, asked, device), blob)


def play(job: JobSpec, ctx: JobContext, clock: Clock, model: Net, asked: Order, device: str) -> Batch:
    """Play the games of *job*, or as many as there is time for; at least one."""
    if torch.device(device).type == "cuda" and not torch.cuda.is_available():
        raise RuntimeError("the job asks for a CUDA device, and torch finds none here")
    slots = whole(job, "gpu_slots", torch_play.SLOTS, 1, SLOTS_MAX)
    dtype = word(job, "gpu_dtype", DTYPES)
    pulse = Pulse(ctx, clock)
    pulse()
    kept = _resumed(ctx.resume(), asked.identity, VARIANTS[job.variant][1])
    numbers, parts = [kept[0]], [kept[1]]
    before = done = len(kept[0])
    began = saved = clock.tick()
    under_way = torch_play.play(
        model, games=asked.games, seed=job.seed, style=asked.style, slots=slots, device=device, dtype=dtype,
        done=kept[0].tolist(),
    )  # fmt: skip
    for finished in breathing(under_way, pulse):
        numbers.append(finished.numbers)
        parts.append(finished.games)
        done += len(finished.numbers)
        pulse.done = done / asked.games
        pulse()
        if ctx.should_stop() and done:
            break
        if clock.tick() - saved >= KEEP_SECONDS and len(finished.numbers):
            ctx.checkpoint(_state(numbers, parts, asked.identity))
            saved = clock.tick()
    games = records.joined(parts)
    plies = len(games.moves) - len(parts[0].moves)
    said = order.metrics(done, done - before, plies, clock.tick() - began)
    return Batch(games=records.picked(games, np.argsort(np.concatenate(numbers), kind="stable")), metrics=said)


def breathing(
    plies: Iterator[Finished], pulse: Pulse, *, every: float = BREATH_SECONDS, most: float = PLY_SECONDS_MAX
) -> Iterator[Finished]:
    """*plies*, with signs of life from another thread while one is waited for: compiling takes a minute.

    A ply that takes longer than *most* seconds is stuck, and then the silence tells.
    """
    ours, over = threading.Lock(), threading.Event()
    breaths = 0

    def breathe() -> None:
        nonlocal breaths
        while not over.wait(every):
            with ours:
                breaths += 1
                if breaths * every <= most:
                    pulse()

    thread = threading.Thread(target=breathe, daemon=True)
    thread.start()
    try:
        while (finished := next(plies, None)) is not None:
            with ours:  # one sign of life at a time: here the caller gives them
                breaths = 0
                yield finished
    finally:
        over.set()
        thread.join()


def _state(numbers: list[Numbers], parts: list[Games], identity: str) -> bytes:
    arrays = {"numbers": np.concatenate(numbers), **records.arrays(records.joined(parts))}
    return tensors.pack(arrays, {"identity": identity})


def _resumed(data: bytes | None, identity: str, players: int) -> tuple[Numbers, Games]:
    """The numbers and games in *data* if it is a checkpoint of this very job; else none."""
    nothing = np.zeros(0, np.int64), records.empty(players)
    if data is None:
        return nothing
    try:
        arrays, words = tensors.unpack(data)
    except ValueError:
        return nothing  # torn or foreign: what it held is played again
    if words.get("identity") != identity or "numbers" not in arrays:
        return nothing
    numbers = arrays.pop("numbers").astype(np.int64)
    return numbers, Games(**arrays)
