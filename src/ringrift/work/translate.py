"""Translate: a job into what a workload is asked, and a workload's result into what happened."""

import math
from collections.abc import Mapping

import msgspec

from ringrift.events import data, evaluation, model, selfplay, training
from ringrift.events.base import Event
from ringrift.events.node import CanaryPlayed
from ringrift.jobs import Export, Import, Job, Match, Play, Rate, Train, Tune, Verify
from ringrift.kernel.errors import JobFailed
from ringrift.kernel.variant import parse
from ringrift.workload.api import SETTINGS_LETTERS_MAX, Artifact, JobResult, JobSpec, Scalar


def to_spec(job: Job, id: str, attempt: int, params: Mapping[str, Scalar]) -> JobSpec:
    """What the workload is asked to do for *job*."""
    inputs: dict[str, tuple[str, ...]] = {}
    own: dict[str, Scalar] = {}
    match job:
        case Play():
            inputs, own = {"model": (job.model,)}, {"games": job.games}
        case Export():
            inputs = {"batches": job.batches}
        case Train():
            inputs = {"samples": _maybe(job.samples), "parent": _maybe(job.parent)}
            own = {"generation": job.generation}
        case Match():
            own = {"first": job.first, "count": job.count}
            if job.canary:
                own["candidate"] = job.candidate
            else:
                inputs = {"candidate": (job.candidate,)}
            if job.baseline:
                own["champion"] = job.baseline
            else:
                inputs["champion"] = (job.champion,)
            if job.plies:
                own["opening_plies"] = job.plies
        case Verify():
            inputs = {"model": (job.model,)}
        case Import():
            inputs = {"file": (job.file,)}
        case Rate():
            inputs = {"tally": (job.tally,)}
        case Tune():
            own = {"vector": ",".join(map(repr, job.vector))}
        case _:
            raise JobFailed(f"{job.kind()} is not a workload's job", retry=False)
    return JobSpec(
        job=id,
        stage=job.kind(),
        variant=job.variant,
        seed=job.seed,
        inputs=inputs,
        params={**params, **own},
        attempt=attempt,
    )


def to_events(job: Job, result: JobResult, node: str, ephemeral: bool) -> tuple[Event, ...]:
    """What happened when *job* ended with *result*.  Raises JobFailed if the result is not what was asked for."""
    match job:
        case Play():
            made = _only(result, "games")
            games = _whole(made, "games")
            return (
                selfplay.BatchFinished(
                    variant=job.variant, batch=made.blob, games=games, node=node, model=job.model, ephemeral=ephemeral
                ),
            )
        case Export():
            made = _only(result, "samples")
            count = _whole(made, "samples")
            bad = tuple(blob for blob in job.batches if blob in result.refused)
            used = tuple(blob for blob in job.batches if blob not in bad)
            return (
                data.Exported(
                    variant=job.variant,
                    samples=made.blob,
                    count=count,
                    batches=used,
                    node=node,
                    refused=bad,
                    job=job.key,
                ),
            )
        case Train():
            made = _only(result, "model")
            return (
                training.Finished(
                    variant=job.variant, model=made.blob, generation=job.generation, node=node, samples=job.samples,
                    parent=job.parent, metrics=dict(result.metrics), job=job.key,
                ),
            )  # fmt: skip
        case Match():
            return (_matched(job, result, node),)
        case Verify():
            return (model.Verified(variant=job.variant, model=job.model, node=node),)
        case Import():
            made = _only(result, "model")
            return (model.Imported(variant=job.variant, model=made.blob, source=job.file, node=node),)
        case Rate():
            made = _only(result, "report")
            return (
                evaluation.Rated(
                    variant=job.variant, report=made.blob, tally=job.tally, summary=_summary(made), node=node
                ),
            )
        case Tune():
            fitness = _finite(result, "fitness")
            return (evaluation.Tried(variant=job.variant, vector=job.vector, fitness=fitness, node=node, job=job.key),)
    raise JobFailed(f"{job.kind()} is not a workload's job", retry=False)


def _matched(job: Match, result: JobResult, node: str) -> evaluation.BlocksPlayed | CanaryPlayed:
    """What a match says: a canary tries the node and is no evidence about models."""
    _check_blocks(job, result)
    played = tuple(
        evaluation.Played(number=block.number, scores=tuple(block.scores), ranks=tuple(block.ranks))
        for block in result.blocks
    )
    if job.canary:
        return CanaryPlayed(variant=job.variant, seed=job.seed, blocks=played, node=node)
    return evaluation.BlocksPlayed(
        variant=job.variant, candidate=job.candidate, champion=job.opponent, blocks=played, node=node,
        settings=result.settings, seed=job.seed,
    )  # fmt: skip


def _maybe(blob: str | None) -> tuple[str, ...]:
    return () if blob is None else (blob,)


def _only(result: JobResult, kind: str) -> Artifact:
    made = [output for output in result.outputs if output.kind == kind]
    if len(made) != 1:
        raise JobFailed(f"the workload made {len(made)} artifacts of kind {kind}, not 1")
    return made[0]


def _summary(made: Artifact) -> evaluation.Summary:
    try:
        return msgspec.json.decode(str(made.meta.get("summary")), type=evaluation.Summary)
    except msgspec.DecodeError as bad:
        raise JobFailed(f"the report says no summary: {bad}", blob=made.blob) from bad


def _whole(made: Artifact, key: str) -> int:
    number = made.meta.get(key)
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise JobFailed(f"the workload says {key} = {number!r}: a whole number above 0 is needed", blob=made.blob)
    return number


def _finite(result: JobResult, metric: str) -> float:
    number = result.metrics.get(metric)
    if number is None or not math.isfinite(number):
        raise JobFailed(f"the workload says {metric} = {number!r}: a finite number is needed")
    return float(number)


def _check_blocks(job: Match, result: JobResult) -> None:
    """Blocks are evidence: exactly those asked for, each score between 0 and 1."""
    if len(result.settings) > SETTINGS_LETTERS_MAX:
        raise JobFailed(
            f"the settings of a match take up to {SETTINGS_LETTERS_MAX} letters, not {len(result.settings)}"
        )
    numbers = [block.number for block in result.blocks]
    if numbers != list(range(job.first, job.first + job.count)):
        raise JobFailed(f"blocks {job.first} … {job.first + job.count - 1} were asked for, not {numbers[:8]}")
    seats = parse(job.variant).players
    for block in result.blocks:
        if len(block.scores) != seats or not all(0.0 <= score <= 1.0 for score in block.scores):
            raise JobFailed(f"block {block.number} needs {seats} scores from 0 to 1, not {list(block.scores)[:8]}")
        if block.ranks and (len(block.ranks) != seats or not all(0.0 <= rank <= 1.0 for rank in block.ranks)):
            raise JobFailed(f"block {block.number} needs {seats} ranks from 0 to 1, not {list(block.ranks)[:8]}")
