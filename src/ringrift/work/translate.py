"""Translate: a job into what a workload is asked, and a workload's result into what happened."""

from collections.abc import Mapping

from ringrift.events import data, evaluation, model, selfplay, training
from ringrift.events.base import Event
from ringrift.jobs import Export, Job, Match, Play, Train, Verify
from ringrift.kernel.errors import JobFailed
from ringrift.kernel.variant import parse
from ringrift.workload.api import Artifact, JobResult, JobSpec, Scalar


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
            inputs, own = {"candidate": (job.candidate,)}, {"first": job.first, "count": job.count}
            if job.baseline:
                own["champion"] = job.baseline
            else:
                inputs["champion"] = (job.champion,)
            if job.plies:
                own["opening_plies"] = job.plies
        case Verify():
            inputs = {"model": (job.model,)}
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
            _check_blocks(job, result)
            played = tuple(evaluation.Played(number=b.number, scores=tuple(b.scores)) for b in result.blocks)
            return (
                evaluation.BlocksPlayed(
                    variant=job.variant, candidate=job.candidate, champion=job.opponent, blocks=played, node=node
                ),
            )
        case Verify():
            return (model.Verified(variant=job.variant, model=job.model, node=node),)
    raise JobFailed(f"{job.kind()} is not a workload's job", retry=False)


def _maybe(blob: str | None) -> tuple[str, ...]:
    return () if blob is None else (blob,)


def _only(result: JobResult, kind: str) -> Artifact:
    made = [output for output in result.outputs if output.kind == kind]
    if len(made) != 1:
        raise JobFailed(f"the workload made {len(made)} artifacts of kind {kind}, not 1")
    return made[0]


def _whole(made: Artifact, key: str) -> int:
    number = made.meta.get(key)
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise JobFailed(f"the workload says {key} = {number!r}: a whole number above 0 is needed", blob=made.blob)
    return number


def _check_blocks(job: Match, result: JobResult) -> None:
    """Blocks are evidence: exactly those asked for, each score between 0 and 1."""
    numbers = [block.number for block in result.blocks]
    if numbers != list(range(job.first, job.first + job.count)):
        raise JobFailed(f"blocks {job.first} … {job.first + job.count - 1} were asked for, not {numbers[:8]}")
    seats = parse(job.variant).players
    for block in result.blocks:
        if len(block.scores) != seats or not all(0.0 <= score <= 1.0 for score in block.scores):
            raise JobFailed(f"block {block.number} needs {seats} scores from 0 to 1, not {list(block.scores)[:8]}")
