"""Conformance: check a workload against everything that the loop relies on; each defect is reported as a sentence.

python -m ringrift.workload.conformance NAME VARIANT [--seed N] [--games N] [--command PROGRAM …]
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from ringrift.kernel.errors import RingriftError
from ringrift.workload.api import Artifact, JobResult, JobSpec, Kind, Scalar, Workload
from ringrift.workload.declared import (
    check_baselines,
    check_blocks,
    check_board,
    check_game_files,
    check_openings,
    check_players,
)
from ringrift.workload.registry import Registry
from ringrift.workload.scratch import Killed, Scratch
from ringrift.workload.trial import Broken, DiskFull, Loop, Trial, attempt

_NUMBERS = range(3, 9)  # the blocks of the trial matches; not from 0, so that a wrong start shows
_CHECKPOINTS_MAX = 3  # a job is killed after each of its first so many checkpoints
_STOPS_MAX = 8  # heartbeats of a job after which it is stopped, spread over all of them
_DESCRIPTION = "Check a workload: print its defects.  Exit code 0 if it conforms, 1 if not, 2 if it cannot be loaded."


class _FullDisk(Scratch):
    """Publishes nothing."""

    def publish(self, kind: Kind, data: bytes, meta: Mapping[str, Scalar]) -> Artifact:
        raise DiskFull("the disk is full")


def check(workload: Workload, variant: str, folder: Path, seed: int = 0, *, games: int = 8) -> list[str]:
    """The defects of *workload* in *variant*, a sentence each; none if it conforms.  Blobs are left in *folder*."""
    spec = next((spec for spec in workload.variants() if spec.name == variant), None)
    if spec is None:
        return [f"{workload.name} does not offer {variant}"]
    trial = Trial(workload, spec, folder, seed, games)
    if reason := Registry({workload.name: lambda: workload}).find_missing(workload.name):
        trial.findings.append(f"no run would take it: {reason}")
    trial.findings.extend(check_board(trial))  # first: a defect of the rules explains many others
    try:
        loop = _run_loop(trial)
    except Broken as broken:
        return [*trial.findings, str(broken)]
    checks: tuple[Callable[[Trial, Loop], Iterator[str]], ...] = (
        *(_check_counts, _check_repeats, _check_stops, _check_resumes, _check_damage, _check_match),
        *(_check_refusals, _check_errors, check_baselines, check_openings, check_players, check_game_files),
    )
    for run_check in checks:
        try:
            trial.findings.extend(run_check(trial, loop))
        except Broken as broken:
            trial.findings.append(str(broken))
    return list(dict.fromkeys(trial.findings))


def _run_loop(trial: Trial) -> Loop:
    champion = trial.artifact("model", generation_0 := trial.job("train"))
    batch = trial.artifact("games", play := trial.job("play", {"games": trial.games}, model=champion))
    samples = trial.artifact("samples", export := trial.job("export", batches=batch))
    candidate = trial.artifact("model", train := trial.job("train", samples=samples, parent=champion))
    return Loop(champion, batch, samples, candidate, (generation_0, play, export, train))


def _check_counts(trial: Trial, loop: Loop) -> Iterator[str]:
    for stage, artifact in (("play", loop.batch), ("export", loop.samples)):
        if (games := artifact.meta.get("games")) != trial.games:
            yield f"{stage} should count {trial.games} games, but its meta has games = {games!r}"
    samples = loop.samples.meta.get("samples")
    if not isinstance(samples, int) or samples < 1:
        yield f"export has samples = {samples!r} in its meta instead of their number"


def _check_repeats(trial: Trial, loop: Loop) -> Iterator[str]:
    """The same job twice makes the same blob, whatever the attempt."""
    for first, job in zip((loop.champion, loop.batch, loop.samples, loop.candidate), loop.jobs, strict=True):
        if trial.artifact(first.kind, replace(job, attempt=2)).blob != first.blob:
            inputs = f"the same {' and '.join(job.inputs)}" if job.inputs else "no inputs"
            yield f"{job.stage}, with {inputs} and the same seed, makes another {first.kind} blob the second time"


def _check_stops(trial: Trial, loop: Loop) -> Iterator[str]:
    """A job that is stopped, at once or after any heartbeat, leaves only what is whole."""
    _, play, export, train = loop.jobs
    yield from _stops(trial, play, partial(_stopped_play, trial))
    yield from _stops(trial, export, partial(_stopped_job, loop.samples))
    yield from _stops(trial, train, partial(_stopped_job, loop.candidate))


def _stops(trial: Trial, job: JobSpec, errors: Callable[[JobResult], Iterator[str]]) -> Iterator[str]:
    """Stop *job* after each of its heartbeats, or some of them; *errors* finds out what is bad about its result."""
    whole = trial.scratch()
    trial.run(job, whole)
    if not whole.beats:
        yield f"{job.stage} sends no heartbeat, so a long job would lose its lease"
    last = len(whole.beats)
    for beats in sorted({last * number // _STOPS_MAX for number in range(_STOPS_MAX)} | {min(1, last)}):
        result = trial.run(job, trial.scratch().stop_after(beats))
        yield from (f"{job.stage}, stopped after {beats} heartbeats, {error}" for error in errors(result))


def _stopped_play(trial: Trial, result: JobResult) -> Iterator[str]:
    """A stopped play job leaves a whole batch, which export accepts."""
    if [output.kind for output in result.outputs] != ["games"]:
        yield "does not return one games artifact"
        return
    games = result.outputs[0].meta.get("games")
    if not isinstance(games, int) or not 1 <= games <= trial.games:
        yield f"has games = {games!r} in its meta"
    elif result.partial != (games < trial.games):
        yield f"has {games} of {trial.games} games and partial = {result.partial}"
    elif trial.artifact("samples", trial.job("export", batches=result.outputs[0])).meta.get("games") != games:
        yield f"has {games} games, but export counts others"


def _stopped_job(whole: Artifact, result: JobResult) -> Iterator[str]:
    """A stopped export or training is partial and returns nothing, or returns what it would have at its end."""
    if [output.blob for output in result.outputs] != ([] if result.partial else [whole.blob]):
        yield "returns another artifact than at its end: if it is not done, it should be partial and return none"


def _check_resumes(trial: Trial, loop: Loop) -> Iterator[str]:
    """A job that died and was resumed from its checkpoint makes the same blob as without interruption."""
    for whole, job in ((loop.batch, loop.jobs[1]), (loop.candidate, loop.jobs[3])):
        for checkpoints in range(1, _CHECKPOINTS_MAX + 1):
            dying = Scratch(trial.folder).kill_after(checkpoints)
            try:
                trial.run(job, dying)
                break  # it has no more checkpoints
            except Killed:
                if trial.artifact(whole.kind, replace(job, attempt=2), dying.again()).blob != whole.blob:
                    yield f"{job.stage}, resumed from checkpoint {checkpoints}, makes another blob than in one run"


def _check_damage(trial: Trial, loop: Loop) -> Iterator[str]:
    """Good models are verified; a model and a batch with a flipped bit are refused."""
    for model in (loop.champion, loop.candidate):
        trial.run(trial.job("verify", model=model))
    for damage, bad in trial.damaged(loop.candidate):
        yield from trial.refusal(trial.job("verify", model=bad), damage, bad.blob)
    for damage, bad in trial.damaged(loop.batch):
        export = replace(loop.jobs[2], inputs={"batches": (loop.batch.blob, bad.blob)})
        yield from trial.refusal(export, damage, bad.blob)


def _check_refusals(trial: Trial, loop: Loop) -> Iterator[str]:
    """What no retry can mend is refused: a stage, a variant or an input that is not there."""
    play = loop.jobs[1]
    yield from trial.refusal(replace(play, stage="no-such-stage"), "a stage that does not exist")
    yield from trial.refusal(replace(play, variant=f"no-such-game_{trial.spec.players}p"), "a variant of another game")
    yield from trial.refusal(replace(play, inputs={}), "a job without its model")


def _check_errors(trial: Trial, loop: Loop) -> Iterator[str]:
    """An error of the node is the node's: it leaves the job as it is, so that the job is tried again."""
    for job in loop.jobs:
        error = attempt(trial.workload.run, job, _FullDisk(trial.folder))
        if not isinstance(error, Exception):
            yield f"{job.stage} returns a result although publishing raised an error"
        elif not isinstance(error, DiskFull):
            sentence = f"{job.stage} raises {type(error).__name__} in place of the error that publishing raised"
            yield trial.failure(sentence, error)


def _check_match(trial: Trial, loop: Loop) -> Iterator[str]:
    """Blocks have the same scores in any chunk, those of two players mirror, and a stopped match has the first."""
    players, mirrored = (loop.candidate, loop.champion), (loop.champion, loop.candidate)
    whole = trial.blocks(*players, _NUMBERS)
    yield from check_blocks(trial, whole, trial.blocks(*mirrored, _NUMBERS), _NUMBERS)
    if trial.blocks(*players, _NUMBERS[:2]) + trial.blocks(*players, _NUMBERS[2:]) != whole:
        yield "match gives a block other scores when the blocks are requested in other chunks"

    def stopped(result: JobResult) -> Iterator[str]:
        count = len(result.blocks)
        if tuple(result.blocks) != whole[:count] or result.partial != (count < len(_NUMBERS)):
            yield "does not return the first of its blocks, marked as partial"

    yield from _stops(trial, trial.match(*players, _NUMBERS), stopped)


def main(words: Sequence[str] | None = None) -> int:
    """Print the findings.  0 if there are none, else 1; exits with 2 if the workload cannot be loaded."""
    parser = argparse.ArgumentParser(prog="ringrift.workload.conformance", description=_DESCRIPTION)
    parser.add_argument("name", help="name of an installed workload, or any name with --command")
    parser.add_argument("variant", help="e.g. hex8_2p")
    parser.add_argument("--seed", type=int, default=0, help="random seed (default 0)")
    parser.add_argument("--games", type=int, default=8, help="games of a trial play job (default 8)")
    parser.add_argument("--command", nargs=argparse.REMAINDER, help="the program to check; must come last")
    options = parser.parse_args(words)
    try:
        workload = Registry.load({options.name: options.command} if options.command else {}).get(options.name)
    except (RingriftError, RuntimeError) as error:
        parser.error(str(error))
    with tempfile.TemporaryDirectory(prefix="ringrift-") as folder:
        findings = check(workload, options.variant, Path(folder), options.seed, games=options.games)
    sys.stdout.writelines(f"{finding}\n" for finding in findings)
    sys.stdout.write(f"{options.name} {options.variant}: {f'{len(findings)} findings' if findings else 'conforms'}\n")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
