"""Train job: after a kill it continues from its last checkpoint and ends with the same weights."""

import hashlib
import math

import torch

from ringrift.workload.api import JobContext, JobSpec, Refused
from ringrift.workload.clock import Clock
from ringrift.workload.kit import int_param
from ringrift_reversi import tensors
from ringrift_reversi.net import BLOCKS, BLOCKS_MAX, CHANNELS, CHANNELS_MAX, Net, new_net
from ringrift_reversi.params import Heartbeat, float_param
from ringrift_reversi.samples import Samples
from ringrift_reversi.train import TrainConfig, Trainer
from ringrift_reversi.workload import VERSION

_CHECKPOINT_SECONDS = 8.0
"""Time between checkpoints."""
_STEPS_MIN, _STEPS_MAX, _STEPS_CEILING = 20, 1000, 10_000_000
_REUSE = 3.0


def initial_net(job: JobSpec, parent: Net | None) -> Net:
    """The network to train: *parent*, or a new one if there is none or the job requests another architecture."""
    channels = int_param(job, "channels", parent.channels if parent else CHANNELS, 1, CHANNELS_MAX)
    blocks = int_param(job, "blocks", len(parent.blocks) if parent else BLOCKS, 1, BLOCKS_MAX)
    if parent and (channels, blocks) == (parent.channels, len(parent.blocks)):
        return parent
    return new_net(job.variant, job.seed, channels=channels, blocks=blocks)


def _config_of(job: JobSpec, samples: Samples) -> TrainConfig:
    """The training settings of *job*.  Raises Refused."""
    default = TrainConfig(steps=1)
    batch = int_param(job, "batch", default.batch, 1, 65_536)
    reuse = float_param(job, "reuse", _REUSE, 0.001, 1000.0)
    most = int_param(job, "steps_max", _STEPS_MAX, 1, _STEPS_CEILING)
    steps = min(most, max(_STEPS_MIN, round(reuse * len(samples) / batch)))
    return TrainConfig(
        steps=int_param(job, "steps", steps, 1, _STEPS_CEILING),
        batch=batch,
        lr=float_param(job, "lr", default.lr, 1e-9, 1.0),
        weight_decay=float_param(job, "weight_decay", default.weight_decay, 0.0, 1.0),
        root_share=float_param(job, "root_share", default.root_share, 0.0, 1.0),
        average=float_param(job, "average", default.average, 0.0, 0.99999),
    )


def train(job: JobSpec, ctx: JobContext, clock: Clock, *, model: Net, samples: Samples) -> dict[str, float] | None:
    """Train *model* in place; the metrics, or None if the job should stop before the end."""
    config = _config_of(job, samples)
    trainer = Trainer(model, samples, config, job.seed)
    identity_parts = (VERSION, job.variant, job.seed, *map(tuple, job.inputs.values()), config)
    identity = hashlib.sha256(repr(identity_parts).encode()).hexdigest()
    _restore(trainer, ctx.resume(), identity)
    heartbeat, began, first = Heartbeat(ctx, clock), clock.tick(), trainer.step
    saved = began
    while trainer.step < config.steps:
        heartbeat()
        if ctx.should_stop():
            if trainer.step:  # before the first step there is nothing to continue from
                ctx.checkpoint(tensors.pack(trainer.state(), {"identity": identity}))
            return None
        trainer.advance()
        heartbeat.done = trainer.step / config.steps
        heartbeat.metrics = trainer.losses()
        if clock.tick() - saved >= _CHECKPOINT_SECONDS:
            ctx.checkpoint(tensors.pack(trainer.state(), {"identity": identity}))
            saved = clock.tick()
    seconds = max(clock.tick() - began, 1e-9)
    losses = trainer.finish()
    if not all(math.isfinite(loss) for loss in losses.values()) or not all(
        bool(torch.isfinite(weight).all()) for weight in model.parameters()
    ):
        raise Refused("training ended with losses or weights that are not finite")
    speed = (trainer.step - first) / seconds
    size = {"steps": config.steps, "batch": config.batch, "positions": len(samples)}
    return {**losses, **size, "reuse": config.steps * config.batch / len(samples), "steps_per_second": speed}


def _restore(trainer: Trainer, data: bytes | None, identity: str) -> None:
    """Continue from *data* if it is a checkpoint of this very job; else start over."""
    if data is None:
        return
    try:
        arrays, meta = tensors.unpack(data)
    except ValueError:
        return  # damaged or foreign: its steps are done again
    if meta.get("identity") == identity:
        trainer.restore(arrays)
