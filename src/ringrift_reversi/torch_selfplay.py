"""Selfplay on a GPU: the job that plays a batch with ``torch_play``; it needs only torch, numpy and safetensors.

After a kill it continues from the finished games; the others are played again, since most of 16,384 games end within
the same second anyway.
"""

import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ringrift.workload.api import JobContext, JobResult, JobSpec
from ringrift.workload.clock import Clock, SystemClock
from ringrift.workload.kit import int_param, only_input, read_input
from ringrift_reversi import net, play_spec, records, tensors, torch_play
from ringrift_reversi.net import MODEL_BYTES_MAX, Net
from ringrift_reversi.params import Heartbeat, choice_param
from ringrift_reversi.play_spec import Batch, Checkpoints, PlaySpec
from ringrift_reversi.records import Games
from ringrift_reversi.topology import VARIANTS
from ringrift_reversi.torch_play import Finished

_SLOTS_MAX = 65_536
_DTYPES = ("bfloat16", "float32")
_BEAT_SECONDS, _PLY_SECONDS_MAX = 5.0, 600.0
_Numbers = npt.NDArray[np.int64]


def run(job: JobSpec, ctx: JobContext, clock: Clock | None = None, *, device: str = "cuda") -> JobResult:
    """Do the play job *job* on *device*.  Raises Refused, or RuntimeError where there is no such device."""
    blob = only_input(job, "model")
    model = read_input(ctx, "model", blob, partial(net.load, variant=job.variant), MODEL_BYTES_MAX)
    spec = play_spec.spec_of(job, blob)
    return play_spec.publish(job, ctx, spec, _play(job, ctx, clock or SystemClock(), model, spec, device), blob)


def _play(job: JobSpec, ctx: JobContext, clock: Clock, model: Net, spec: PlaySpec, device: str) -> Batch:
    """Play the games of *job*, or as many as are done when it should stop; at least one."""
    if torch.device(device).type == "cuda" and not torch.cuda.is_available():
        raise RuntimeError("the job needs a CUDA device, and torch finds none on this machine")
    slots = int_param(job, "gpu_slots", torch_play.SLOTS, 1, _SLOTS_MAX)
    dtype = choice_param(job, "gpu_dtype", _DTYPES)
    heartbeat = Heartbeat(ctx, clock)
    heartbeat()
    resumed = _resume(ctx.resume(), spec.identity, VARIANTS[job.variant][1])
    numbers, parts = [resumed[0]], [resumed[1]]
    before = done = len(resumed[0])
    began, checkpoints = clock.tick(), Checkpoints(job, clock, before)
    target: dict[str, Any] = {"slots": slots, "device": device, "dtype": dtype, "done": resumed[0].tolist()}
    plies_played = torch_play.play(model, games=spec.games, seed=job.seed, style=spec.style, **target)
    for finished in _with_heartbeats(plies_played, heartbeat):
        numbers.append(finished.numbers)
        parts.append(finished.games)
        done += len(finished.numbers)
        heartbeat.done = done / spec.games
        heartbeat()
        if ctx.should_stop() and done:
            break
        if len(finished.numbers) and checkpoints.is_due(done):
            ctx.checkpoint(_state(numbers, parts, spec.identity))
    games = records.join(parts)
    plies = len(games.moves) - len(parts[0].moves)
    metrics = play_spec.metrics(done, done - before, plies, clock.tick() - began)
    return Batch(games=records.pick(games, np.argsort(np.concatenate(numbers), kind="stable")), metrics=metrics)


def _with_heartbeats(
    plies: Iterator[Finished], heartbeat: Heartbeat, *, every: float = _BEAT_SECONDS, most: float = _PLY_SECONDS_MAX
) -> Iterator[Finished]:
    """*plies*, with heartbeats from another thread while the next is computed: compiling takes a minute.

    After *most* seconds without a ply the heartbeats end: the job is stuck, and its lease expires.
    """
    lock, over = threading.Lock(), threading.Event()
    beats = 0

    def send_heartbeats() -> None:
        nonlocal beats
        while not over.wait(every):
            with lock:
                beats += 1
                if beats * every <= most:
                    heartbeat()

    thread = threading.Thread(target=send_heartbeats, daemon=True)
    thread.start()
    try:
        while (finished := next(plies, None)) is not None:
            with lock:  # one heartbeat at a time: the caller sends its own here
                beats = 0
                yield finished
    finally:
        over.set()
        thread.join()


def _state(numbers: list[_Numbers], parts: list[Games], identity: str) -> bytes:
    arrays = {"numbers": np.concatenate(numbers), **records.arrays(records.join(parts))}
    return tensors.compress(tensors.pack(arrays, {"identity": identity}))


def _resume(data: bytes | None, identity: str, players: int) -> tuple[_Numbers, Games]:
    """The numbers and games in *data* if it is a checkpoint of this very job; else none."""
    none = np.zeros(0, np.int64), records.empty(players)
    if data is None:
        return none
    try:
        arrays, meta = tensors.unpack(data, records.BATCH_BYTES_MAX)
    except ValueError:
        return none  # damaged or foreign: its games are played again
    if meta.get("identity") != identity or "numbers" not in arrays:
        return none
    numbers = arrays.pop("numbers").astype(np.int64)
    return numbers, Games(**arrays)
