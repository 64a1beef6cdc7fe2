"""Stages: one function per kind of job; its result depends on the spec and the inputs alone."""

from collections.abc import Callable, Sequence
from functools import partial

import torch

from ringrift.workload.api import Block, JobContext, JobResult, JobSpec, Refused
from ringrift.workload.clock import Clock, SystemClock
from ringrift.workload.ingest import ingest_games
from ringrift.workload.kit import export_batches, int_param, only_input, read_input
from ringrift_reversi import (
    baselines,
    evaluate,
    export,
    match,
    net,
    play_spec,
    records,
    samples,
    selfplay,
    train_job,
    tune,
)
from ringrift_reversi.convert import convert_model
from ringrift_reversi.ingest import ReversiRules
from ringrift_reversi.net import MODEL_BYTES_MAX, Net
from ringrift_reversi.params import Heartbeat, choice_param
from ringrift_reversi.play_spec import SIMS_MAX, Style
from ringrift_reversi.topology import VARIANTS
from ringrift_reversi.workload import OPENING_PLIES, VERSION

_SAMPLES_MAX = 200_000
_SAMPLES_CEILING = 5_000_000
_BATCHES_MAX = 4096
_THREADS_MAX = 256
_BLOCKS_MAX = 100_000


def run(job: JobSpec, ctx: JobContext, clock: Clock | None = None) -> JobResult:
    """Do *job*; *clock* times heartbeats and checkpoints."""
    functions: tuple[Callable[[JobSpec, JobContext, Clock], JobResult], ...]
    functions = (_play, _export, _train, _match, _verify, _tune, _import, _ingest)
    stages = {function.__name__.removeprefix("_"): function for function in functions}
    if job.stage not in stages:
        raise Refused(f"reversi has no stage {job.stage!r:.80}")
    torch.set_num_threads(int_param(job, "threads", 1, 1, _THREADS_MAX))
    return stages[job.stage](job, ctx, clock or SystemClock())


def _dtype(job: JobSpec, model: Net) -> str:
    dtype = choice_param(job, "dtype", ("auto", *evaluate.DTYPES))
    if dtype != "auto":
        return dtype
    return evaluate.fastest_dtype(job.variant, channels=model.channels, blocks=len(model.blocks))


def _model(job: JobSpec, ctx: JobContext, blob: str) -> Net:
    return read_input(ctx, "model", blob, partial(net.load, variant=job.variant), MODEL_BYTES_MAX)


def _play(job: JobSpec, ctx: JobContext, clock: Clock) -> JobResult:
    blob = only_input(job, "model")
    model = _model(job, ctx, blob)
    spec = play_spec.spec_of(job, blob)
    batch = selfplay.play(job, ctx, clock, model=model, spec=spec, dtype=_dtype(job, model))
    return play_spec.publish(job, ctx, spec, batch, blob)


def _export(job: JobSpec, ctx: JobContext, clock: Clock) -> JobResult:
    batches, limit = job.inputs.get("batches", ()), int_param(job, "samples_max", _SAMPLES_MAX, 1, _SAMPLES_CEILING)
    if len(batches) > _BATCHES_MAX:
        raise Refused(f"export takes up to {_BATCHES_MAX} batches, not {len(batches)}")

    def read(blob: str) -> tuple[records.Games, samples.Samples]:
        return read_input(ctx, "batch", blob, partial(_replay, variant=job.variant), records.BATCH_BYTES_MAX)

    def write(parts: Sequence[tuple[records.Games, samples.Samples]]) -> JobResult:
        joined = export.join([part for _, part in parts], limit)
        if not len(joined):
            raise Refused("the batches hold no samples")
        coverage = export.coverage([games for games, _ in parts], joined)
        if not coverage.policy_targets:
            raise Refused("no position of the batches has a policy target")
        data = samples.pack(joined, job.variant, {"workload": f"reversi {VERSION}"})
        # Its meta counts all accepted games, also those whose positions are too old to be among the samples.
        output = ctx.publish("samples", data, {"samples": len(joined), "games": coverage.games})
        return JobResult(outputs=(output,), metrics=coverage.metrics())

    return export_batches(job, ctx, read, write)


def _replay(data: bytes, variant: str) -> tuple[records.Games, samples.Samples]:
    games, _ = records.unpack(data, variant)
    return games, export.replay(games, variant)


def _train(job: JobSpec, ctx: JobContext, clock: Clock) -> JobResult:
    parent = _parent(job, ctx)
    generation = int_param(job, "generation", _generation(job, parent), 0, 10**9)
    blobs, metrics = job.inputs.get("samples", ()), {"generation": float(generation)}
    model = train_job.initial_net(job, parent[0] if parent else None)
    if blobs:
        load = partial(samples.unpack, variant=job.variant)
        positions = read_input(ctx, "samples", only_input(job, "samples"), load, samples.SAMPLES_BYTES_MAX)
        training_metrics = train_job.train(job, ctx, clock, model=model, samples=positions)
        if training_metrics is None:
            return JobResult(partial=True)
        metrics |= training_metrics
    meta = {"generation": str(generation), "workload": f"reversi {VERSION}", "golden": evaluate.golden(model)}
    output = ctx.publish("model", net.save(model, meta), {"generation": generation})
    return JobResult(outputs=(output,), metrics=metrics)


def _parent(job: JobSpec, ctx: JobContext) -> tuple[Net, dict[str, str]] | None:
    if not job.inputs.get("parent", ()):
        return None
    load = partial(net.load_with_meta, variant=job.variant)
    return read_input(ctx, "parent", only_input(job, "parent"), load, MODEL_BYTES_MAX)


def _generation(job: JobSpec, parent: tuple[Net, dict[str, str]] | None) -> int:
    if not job.inputs.get("samples", ()):
        return 0
    before = parent[1].get("generation", "") if parent else ""
    return int(before[:9]) + 1 if before.isdecimal() else 1


def _match(job: JobSpec, ctx: JobContext, clock: Clock) -> JobResult:
    first, count = int_param(job, "first", None, 0, match.NUMBER_MAX), int_param(job, "count", None, 1, _BLOCKS_MAX)
    plies = int_param(job, "opening_plies", OPENING_PLIES, OPENING_PLIES, 64)
    heartbeat = Heartbeat(ctx, clock)
    candidate = _player(job, ctx, "candidate", heartbeat, count)
    pair = candidate, _player(job, ctx, "champion", heartbeat, count)
    blocks: list[Block] = []
    is_stopped = False

    def should_go_on() -> bool:
        nonlocal is_stopped
        heartbeat()
        is_stopped = is_stopped or ctx.should_stop()
        return not is_stopped

    openings = match.openings(job.variant, job.seed, first + count, plies)
    for wave in match.waves(job.variant, pair, openings, first=first, should_go_on=should_go_on):
        blocks.extend(wave)
        heartbeat.done = len(blocks) / count
    score = sum(sum(block.scores) for block in blocks) / max(1, len(blocks) * VARIANTS[job.variant][1])
    metrics = {"blocks": float(len(blocks)), "score": score}
    settings = f"sims={_match_sims(job)}"
    return JobResult(metrics=metrics, blocks=tuple(blocks), partial=len(blocks) < count, settings=settings)


def _match_sims(job: JobSpec) -> int:
    return int_param(job, "match_sims", int_param(job, "sims", Style().sims, 1, SIMS_MAX), 1, SIMS_MAX)


def _player(job: JobSpec, ctx: JobContext, role: str, heartbeat: Heartbeat, count: int) -> match.Player:
    """The player in *role*: a model, or a player that never trains if the inputs or params name it."""
    name = job.inputs.get(role, ()) or (str(job.params.get(role, "")),)
    if len(name) == 1 and baselines.is_baseline(name[0]):
        return match.BaselinePlayer(name[0], job.variant, job.seed, heartbeat)
    if role in job.params:
        try:
            baselines.require_baseline(name[0])
        except ValueError as error:
            raise Refused(str(error)) from error
    model = _model(job, ctx, only_input(job, role))
    rows = min(count, match.WAVE) * VARIANTS[job.variant][1]
    return match.NetPlayer(model, sims=_match_sims(job), dtype=_dtype(job, model), rows=rows, beat=heartbeat)


def _verify(job: JobSpec, ctx: JobContext, clock: Clock) -> JobResult:
    Heartbeat(ctx, clock)()
    blob = only_input(job, "model")
    load = partial(net.load_with_meta, variant=job.variant)
    model, meta = read_input(ctx, "model", blob, load, MODEL_BYTES_MAX)
    if defect := evaluate.find_defect(model) or evaluate.find_drift(model, meta.get("golden", "")):
        raise Refused(f"model {blob[:12]} is refused: {defect}", blob)
    return JobResult()


def _import(job: JobSpec, ctx: JobContext, clock: Clock) -> JobResult:
    Heartbeat(ctx, clock)()
    blob = only_input(job, "file")
    data = read_input(ctx, "file", blob, partial(convert_model, variant=job.variant), MODEL_BYTES_MAX)
    return JobResult(outputs=(ctx.publish("model", data, {}),))


def _ingest(job: JobSpec, ctx: JobContext, clock: Clock) -> JobResult:
    Heartbeat(ctx, clock)()
    return ingest_games(job, ctx, ReversiRules(job.variant), VARIANTS[job.variant][1])


def _tune(job: JobSpec, ctx: JobContext, clock: Clock) -> JobResult:
    Heartbeat(ctx, clock)()
    return JobResult(metrics={"fitness": tune.run_trial(job)})
