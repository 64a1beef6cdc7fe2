"""Stages: the five jobs of the loop, and the one that tries a vector; each a function of its spec and its inputs."""

from collections.abc import Callable
from functools import partial

import torch

from ringrift.kernel.clock import Clock, SystemClock
from ringrift.workload.api import Artifact, Block, JobContext, JobResult, JobSpec, Refused
from ringrift_reversi import baselines, evaluate, export, match, net, order, records, samples, selfplay, teach, tune
from ringrift_reversi.asked import Pulse, only, read, whole, word
from ringrift_reversi.convert import converted
from ringrift_reversi.net import MODEL_BYTES_MAX, Net
from ringrift_reversi.order import SIMS_MAX, Style
from ringrift_reversi.topology import VARIANTS
from ringrift_reversi.workload import VERSION

SAMPLES_MAX = 200_000
SAMPLES_CEILING = 5_000_000
BATCHES_MAX = 4096
THREADS_MAX = 256
BLOCKS_MAX = 100_000


def run(job: JobSpec, ctx: JobContext, clock: Clock | None = None) -> JobResult:
    """Do *job*; *clock* says when it is time for a sign of life or a checkpoint."""
    stages: dict[str, Callable[[JobSpec, JobContext, Clock], JobResult]] = {
        "play": _play, "export": _export, "train": _train, "match": _match, "verify": _verify,
        "tune": _tune, "import": _import,
    }  # fmt: skip
    if job.stage not in stages:
        raise Refused(f"reversi has no stage {job.stage!r:.80}")
    torch.set_num_threads(whole(job, "threads", 1, 1, THREADS_MAX))
    return stages[job.stage](job, ctx, clock or SystemClock())


def _dtype(job: JobSpec, model: Net) -> str:
    asked = word(job, "dtype", ("auto", *evaluate.DTYPES))
    if asked != "auto":
        return asked
    return evaluate.quickest(job.variant, channels=model.channels, blocks=len(model.blocks))


def _model(job: JobSpec, ctx: JobContext, blob: str) -> Net:
    return read(ctx, "model", blob, MODEL_BYTES_MAX, partial(net.load, variant=job.variant))


def _play(job: JobSpec, ctx: JobContext, clock: Clock) -> JobResult:
    blob = only(job, "model")
    model = _model(job, ctx, blob)
    asked = order.order_of(job, blob)
    batch = selfplay.play(job, ctx, clock, model=model, asked=asked, dtype=_dtype(job, model))
    return order.published(job, ctx, asked, batch, blob)


def _export(job: JobSpec, ctx: JobContext, clock: Clock) -> JobResult:
    batches, most = job.inputs.get("batches", ()), whole(job, "samples_max", SAMPLES_MAX, 1, SAMPLES_CEILING)
    if len(batches) > BATCHES_MAX:
        raise Refused(f"export takes up to {BATCHES_MAX} batches, not {len(batches)}")
    pulse = Pulse(ctx, clock)
    games: list[records.Games] = []
    parts: list[samples.Samples] = []
    bad: dict[str, Refused] = {}
    for number, blob in enumerate(batches):
        pulse.done = number / len(batches)
        pulse()
        if ctx.should_stop():
            return JobResult(partial=True)
        try:
            found, part = read(ctx, "batch", blob, records.BATCH_BYTES_MAX, partial(_replayed, variant=job.variant))
        except Refused as refused:
            bad[blob] = refused
            continue
        games.append(found)
        parts.append(part)
    if not any(len(part) for part in parts):
        raise next(iter(bad.values()), Refused("the batches hold no samples"))
    made = export.joined(parts, most)
    coverage = export.coverage(games, made)
    if not coverage.policy_targets:
        raise Refused("no position of the batches has a policy target")
    data = samples.pack(made, job.variant, {"workload": f"reversi {VERSION}"})
    # Its meta counts all games that were taken, also those whose positions are too old to be among the samples.
    output = ctx.publish("samples", data, {"samples": len(made), "games": coverage.games})
    return JobResult(outputs=(output,), metrics={**coverage.metrics(), "refused": len(bad)}, refused=tuple(bad))


def _replayed(data: bytes, variant: str) -> tuple[records.Games, samples.Samples]:
    games, _ = records.unpack(data, variant)
    return games, export.replayed(games, variant)


def _train(job: JobSpec, ctx: JobContext, clock: Clock) -> JobResult:
    parent = _parent(job, ctx)
    generation = whole(job, "generation", _generation(job, parent), 0, 10**9)
    blobs, metrics = job.inputs.get("samples", ()), {"generation": float(generation)}
    model = teach.pupil(job, parent[0] if parent else None)
    if blobs:
        load = partial(samples.unpack, variant=job.variant)
        known = read(ctx, "samples", only(job, "samples"), samples.SAMPLES_BYTES_MAX, load)
        taught = teach.teach(job, ctx, clock, model=model, known=known)
        if taught is None:
            return JobResult(partial=True)
        metrics |= taught
    words = {"generation": str(generation), "workload": f"reversi {VERSION}", "golden": evaluate.golden(model)}
    made = _published(ctx, net.save(model, words), generation)
    return JobResult(outputs=(made,), metrics=metrics)


def _parent(job: JobSpec, ctx: JobContext) -> tuple[Net, dict[str, str]] | None:
    if not job.inputs.get("parent", ()):
        return None
    load = partial(net.load_with_meta, variant=job.variant)
    return read(ctx, "parent", only(job, "parent"), MODEL_BYTES_MAX, load)


def _generation(job: JobSpec, parent: tuple[Net, dict[str, str]] | None) -> int:
    if not job.inputs.get("samples", ()):
        return 0
    before = parent[1].get("generation", "") if parent else ""
    return int(before[:9]) + 1 if before.isdecimal() else 1


def _published(ctx: JobContext, data: bytes, generation: int) -> Artifact:
    return ctx.publish("model", data, {"generation": generation})


def _match(job: JobSpec, ctx: JobContext, clock: Clock) -> JobResult:
    first, count = whole(job, "first", None, 0, match.NUMBER_MAX), whole(job, "count", None, 1, BLOCKS_MAX)
    plies = whole(job, "opening_plies", match.OPENING_PLIES, match.OPENING_PLIES, 64)
    pulse = Pulse(ctx, clock)
    candidate, champion = (_player(job, ctx, role, pulse, count) for role in ("candidate", "champion"))
    blocks: list[Block] = []
    went_on = True

    def going() -> bool:
        nonlocal went_on
        pulse()
        went_on = went_on and not ctx.should_stop()
        return went_on

    for wave in match.waves(
        job.variant, candidate, champion, seed=job.seed, first=first, count=count, plies=plies, going=going
    ):
        blocks.extend(wave)
        pulse.done = len(blocks) / count
    score = sum(sum(block.scores) for block in blocks) / max(1, len(blocks) * VARIANTS[job.variant][1])
    metrics = {"blocks": float(len(blocks)), "score": score}
    settings = f"sims={_match_sims(job)}"
    return JobResult(metrics=metrics, blocks=tuple(blocks), partial=len(blocks) < count, settings=settings)


def _match_sims(job: JobSpec) -> int:
    return whole(job, "match_sims", whole(job, "sims", Style().sims, 1, SIMS_MAX), 1, SIMS_MAX)


def _player(job: JobSpec, ctx: JobContext, role: str, pulse: Pulse, count: int) -> match.Player:
    """Who plays as *role*: a model, or a player that never trains if its name stands in the inputs or params."""
    name = job.inputs.get(role, ()) or (str(job.params.get(role, "")),)
    if len(name) == 1 and baselines.is_baseline(name[0]):
        return match.BaselinePlayer(name[0], job.variant, job.seed, pulse)
    model = _model(job, ctx, only(job, role))
    rows = min(count, match.WAVE) * VARIANTS[job.variant][1]
    return match.NetPlayer(model, sims=_match_sims(job), dtype=_dtype(job, model), rows=rows, pulse=pulse)


def _verify(job: JobSpec, ctx: JobContext, clock: Clock) -> JobResult:
    Pulse(ctx, clock)()
    blob = only(job, "model")
    load = partial(net.load_with_meta, variant=job.variant)
    model, words = read(ctx, "model", blob, MODEL_BYTES_MAX, load)
    if wrong := evaluate.unsound(model) or evaluate.strayed(model, words.get("golden", "")):
        raise Refused(f"model {blob[:12]} is refused: {wrong}", blob)
    return JobResult()


def _import(job: JobSpec, ctx: JobContext, clock: Clock) -> JobResult:
    Pulse(ctx, clock)()
    blob = only(job, "file")
    data = read(ctx, "file", blob, MODEL_BYTES_MAX, partial(converted, variant=job.variant))
    return JobResult(outputs=(ctx.publish("model", data, {}),))


def _tune(job: JobSpec, ctx: JobContext, clock: Clock) -> JobResult:
    Pulse(ctx, clock)()
    return JobResult(metrics={"fitness": tune.tried(job)})
