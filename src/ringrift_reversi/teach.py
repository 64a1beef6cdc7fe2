"""Teach: the job that trains; killed, it goes on from its last checkpoint and ends with the same weights."""

import hashlib
import math

import torch

from ringrift.kernel.clock import Clock
from ringrift.workload.api import JobContext, JobSpec, Refused
from ringrift_reversi import tensors
from ringrift_reversi.asked import Pulse, real, whole
from ringrift_reversi.net import BLOCKS, BLOCKS_MAX, CHANNELS, CHANNELS_MAX, Net, birth
from ringrift_reversi.samples import Samples
from ringrift_reversi.train import Course, Trainer
from ringrift_reversi.workload import VERSION

KEEP_SECONDS = 8.0
"""Between checkpoints."""
STEPS_MIN, STEPS_MAX, STEPS_CEILING = 20, 1000, 10_000_000
REUSE = 3.0


def pupil(job: JobSpec, parent: Net | None) -> Net:
    """What is to be trained: *parent*, or a network made from the seed if there is none or it has another shape."""
    channels = whole(job, "channels", parent.channels if parent else CHANNELS, 1, CHANNELS_MAX)
    blocks = whole(job, "blocks", len(parent.blocks) if parent else BLOCKS, 1, BLOCKS_MAX)
    if parent and (channels, blocks) == (parent.channels, len(parent.blocks)):
        return parent
    return birth(job.variant, job.seed, channels=channels, blocks=blocks)


def course_of(job: JobSpec, known: Samples) -> Course:
    """How the training of *job* goes.  Raises Refused."""
    usual = Course(steps=1)
    batch = whole(job, "batch", usual.batch, 1, 65_536)
    reuse = real(job, "reuse", REUSE, 0.001, 1000.0)
    most = whole(job, "steps_max", STEPS_MAX, 1, STEPS_CEILING)
    steps = min(most, max(STEPS_MIN, round(reuse * len(known) / batch)))
    return Course(
        steps=whole(job, "steps", steps, 1, STEPS_CEILING),
        batch=batch,
        lr=real(job, "lr", usual.lr, 1e-9, 1.0),
        weight_decay=real(job, "weight_decay", usual.weight_decay, 0.0, 1.0),
        root_share=real(job, "root_share", usual.root_share, 0.0, 1.0),
        average=real(job, "average", usual.average, 0.0, 0.99999),
    )


def teach(job: JobSpec, ctx: JobContext, clock: Clock, *, model: Net, known: Samples) -> dict[str, float] | None:
    """Train *model* in place; what came of it in numbers, or None if it was told to stop before the end."""
    course = course_of(job, known)
    trainer = Trainer(model, known, course, job.seed)
    said = (VERSION, job.variant, job.seed, *map(tuple, job.inputs.values()), course)
    identity = hashlib.sha256(repr(said).encode()).hexdigest()
    _restore(trainer, ctx.resume(), identity)
    pulse, began, first = Pulse(ctx, clock), clock.tick(), trainer.step
    kept = began
    while trainer.step < course.steps:
        pulse()
        if ctx.should_stop():
            ctx.checkpoint(tensors.pack(trainer.state(), {"identity": identity}))
            return None
        trainer.advance()
        pulse.done = trainer.step / course.steps
        pulse.metrics = trainer.losses
        if clock.tick() - kept >= KEEP_SECONDS:
            ctx.checkpoint(tensors.pack(trainer.state(), {"identity": identity}))
            kept = clock.tick()
    seconds = max(clock.tick() - began, 1e-9)
    found = trainer.finish()
    if not all(math.isfinite(loss) for loss in found.values()) or not all(
        bool(torch.isfinite(weight).all()) for weight in model.parameters()
    ):
        raise Refused("training ended with losses or weights that are not finite")
    return {**found, "steps": course.steps, "samples": len(known), "steps_per_second": (trainer.step - first) / seconds}


def _restore(trainer: Trainer, data: bytes | None, identity: str) -> None:
    """Go on from *data* if it is a checkpoint of this very job; else begin anew."""
    if data is None:
        return
    try:
        arrays, words = tensors.unpack(data)
    except ValueError:
        return  # torn or foreign: those steps are done again
    if words.get("identity") == identity:
        trainer.restore(arrays)
