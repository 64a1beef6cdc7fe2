"""Conformance: check a workload against everything that the loop relies on; each defect is reported as a sentence.

python -m ringrift.workload.conformance NAME VARIANT [--seed N] [--games N] [--command PROGRAM …]
"""

import argparse
import math
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import NamedTuple

from ringrift.kernel.errors import RingriftError
from ringrift.workload.api import Artifact, Block, JobResult, JobSpec, Kind, Refused, Scalar, VariantSpec, Workload
from ringrift.workload.registry import Registry
from ringrift.workload.scratch import Killed, Scratch

_FIRST, _COUNT = 3, 6  # the blocks of the trial matches; not from 0, so that a wrong start shows
_CHECKPOINTS_MAX = 3  # a job is killed after each of its first so many checkpoints
_SUM_TOLERANCE = 1e-9
_DESCRIPTION = "Check a workload: print its defects.  Exit code 0 if it conforms, 1 if not, 2 if it cannot be loaded."

# Errors that a defect of a workload raises.  Any other error ends the whole check, with its traceback.
_DEFECTS = (
    *(ArithmeticError, AssertionError, AttributeError, ImportError, LookupError),
    *(OSError, RingriftError, RuntimeError, TypeError, ValueError),
)


class _Broken(Exception):
    """A job did not deliver what the rest of a check needs; the message is a finding."""


@dataclass(frozen=True, slots=True)
class _Trial:
    workload: Workload
    spec: VariantSpec
    folder: Path
    seed: int
    games: int
    findings: list[str] = field(default_factory=list)

    def job(self, stage: str, params: Mapping[str, Scalar] | None = None, **inputs: Artifact) -> JobSpec:
        blobs = {role: (artifact.blob,) for role, artifact in inputs.items()}
        return JobSpec(f"conformance-{stage}", stage, self.spec.name, self.seed, inputs=blobs, params=params or {})

    def run(self, job: JobSpec, ctx: Scratch | None = None) -> JobResult:
        ctx = ctx or Scratch(self.folder)
        try:
            result = self.workload.run(job, ctx)
        except Refused as refused:
            raise _Broken(f"{job.stage} refuses good inputs: {refused.reason}") from refused
        except _DEFECTS as error:
            raise _Broken(f"{job.stage} raises {type(error).__name__}: {error}") from error
        if not isinstance(result, JobResult):
            raise _Broken(f"{job.stage} returns {type(result).__name__} instead of JobResult")
        if not all(math.isfinite(beat.done) and 0 <= beat.done <= 1 for beat in ctx.beats):
            self.findings.append(f"{job.stage} sends a heartbeat outside of 0 to 1")
        return result

    def artifact(self, kind: Kind, job: JobSpec, ctx: Scratch | None = None) -> Artifact:
        """The only artifact of *job*, which must be of *kind* and must have been published."""
        outputs = self.run(job, ctx).outputs
        if (kinds := [output.kind for output in outputs]) != [kind]:
            raise _Broken(f"{job.stage} returns {kinds} instead of one {kind} artifact")
        self.read(outputs[0])
        return outputs[0]

    def read(self, artifact: Artifact) -> bytes:
        try:
            return Scratch(self.folder).open_input(artifact.blob).read_bytes()
        except RingriftError as error:
            raise _Broken(f"a {artifact.kind} artifact was never published: {error}") from error

    def match(self, candidate: Artifact, champion: Artifact, first: int, count: int) -> JobSpec:
        return self.job("match", {"first": first, "count": count}, candidate=candidate, champion=champion)


class _Loop(NamedTuple):
    """The artifacts of one turn of the loop, with which every check compares, and the jobs that made them."""

    champion: Artifact
    batch: Artifact
    samples: Artifact
    candidate: Artifact
    jobs: tuple[JobSpec, JobSpec, JobSpec, JobSpec]


def check(workload: Workload, variant: str, folder: Path, seed: int = 0, *, games: int = 8) -> list[str]:
    """The defects of *workload* in *variant*, a sentence each; none if it conforms.  Blobs are left in *folder*."""
    spec = next((spec for spec in workload.variants() if spec.name == variant), None)
    if spec is None:
        return [f"{workload.name} does not offer {variant}"]
    trial = _Trial(workload, spec, folder, seed, games)
    try:
        loop = _run_loop(trial)
    except _Broken as broken:
        return [*trial.findings, str(broken)]
    checks = (_check_counts, _check_repeats, _check_stops, _check_resumes, _check_verify, _check_export, _check_match)
    for run_check in checks:
        try:
            trial.findings.extend(run_check(trial, loop))
        except _Broken as broken:
            trial.findings.append(str(broken))
    return list(dict.fromkeys(trial.findings))


def _run_loop(trial: _Trial) -> _Loop:
    champion = trial.artifact("model", generation_0 := trial.job("train"))
    batch = trial.artifact("games", play := trial.job("play", {"games": trial.games}, model=champion))
    samples = trial.artifact("samples", export := trial.job("export", batches=batch))
    candidate = trial.artifact("model", train := trial.job("train", samples=samples, parent=champion))
    return _Loop(champion, batch, samples, candidate, (generation_0, play, export, train))


def _check_counts(trial: _Trial, loop: _Loop) -> Iterator[str]:
    if loop.batch.meta.get("games") != trial.games:
        yield f"play should have {trial.games} games, but its meta has games = {loop.batch.meta.get('games')!r}"
    if loop.samples.meta.get("games") != trial.games:
        yield f"export should count {trial.games} games, but its meta has games = {loop.samples.meta.get('games')!r}"
    samples = loop.samples.meta.get("samples")
    if not isinstance(samples, int) or samples < 1:
        yield f"export has samples = {samples!r} in its meta instead of their number"


def _check_repeats(trial: _Trial, loop: _Loop) -> Iterator[str]:
    """The same job twice makes the same blob, whatever the attempt."""
    artifacts = (loop.champion, loop.batch, loop.samples, loop.candidate)
    for first, job in zip(artifacts, loop.jobs, strict=True):
        if trial.artifact(first.kind, replace(job, attempt=2)).blob != first.blob:
            inputs = f"the same {' and '.join(job.inputs)}" if job.inputs else "no inputs"
            yield f"{job.stage}, with {inputs} and the same seed, makes another {first.kind} blob the second time"


def _check_stops(trial: _Trial, loop: _Loop) -> Iterator[str]:
    """A play job that was stopped leaves a whole batch, which export accepts."""
    whole, play = Scratch(trial.folder), loop.jobs[1]
    trial.run(play, whole)
    if not whole.beats:
        yield "play sends no heartbeat, so a long job would lose its lease"
    for beats in sorted({1, max(1, len(whole.beats) // 2)}):
        result = trial.run(play, Scratch(trial.folder).stop_after(beats))
        if [output.kind for output in result.outputs] != ["games"]:
            yield f"play, stopped after {beats} heartbeats, does not return one games artifact"
            continue
        games = result.outputs[0].meta.get("games")
        if not isinstance(games, int) or not 1 <= games <= trial.games:
            yield f"play, stopped after {beats} heartbeats, has games = {games!r} in its meta"
        elif result.partial != (games < trial.games):
            yield f"play, stopped after {games} of {trial.games} games, has partial = {result.partial}"
        elif trial.artifact("samples", trial.job("export", batches=result.outputs[0])).meta.get("games") != games:
            yield f"export finds another number than {games} games in a batch that was stopped"


def _check_resumes(trial: _Trial, loop: _Loop) -> Iterator[str]:
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


def _check_verify(trial: _Trial, loop: _Loop) -> Iterator[str]:
    for model in (loop.champion, loop.candidate):
        trial.run(trial.job("verify", model=model))
    for place, bad in _damaged(trial, loop.candidate):
        yield from _refusal(trial, trial.job("verify", model=bad), bad, place)


def _check_export(trial: _Trial, loop: _Loop) -> Iterator[str]:
    for place, bad in _damaged(trial, loop.batch):
        job = replace(loop.jobs[2], inputs={"batches": (loop.batch.blob, bad.blob)})
        yield from _refusal(trial, job, bad, place)


def _damaged(trial: _Trial, artifact: Artifact) -> Iterator[tuple[int, Artifact]]:
    """Copies of *artifact* with one bit flipped: at the beginning, in the middle, at the end and at a random place."""
    data = trial.read(artifact)
    if not data:
        raise _Broken(f"the {artifact.kind} blob is empty")
    for place in sorted({0, len(data) // 2, len(data) - 1, Random(trial.seed).randrange(len(data))}):
        damaged = bytearray(data)
        damaged[place] ^= 1
        yield place, Scratch(trial.folder).publish(artifact.kind, bytes(damaged), artifact.meta)


def _refusal(trial: _Trial, job: JobSpec, bad: Artifact, place: int) -> Iterator[str]:
    damage = f"a {bad.kind} blob of {bad.size} bytes with byte {place} flipped"
    try:
        result = trial.workload.run(job, Scratch(trial.folder))
    except Refused as refused:
        if refused.blob not in (None, bad.blob):
            yield f"{job.stage} refuses {damage}, but names another blob"
    except _DEFECTS as error:
        yield f"{job.stage} raises {type(error).__name__} instead of Refused for {damage}"
    else:
        if tuple(result.refused) != (bad.blob,):
            yield f"{job.stage} accepts {damage}"


def _check_match(trial: _Trial, loop: _Loop) -> Iterator[str]:
    candidate, champion = loop.candidate, loop.champion
    whole = tuple(trial.run(trial.match(candidate, champion, _FIRST, _COUNT)).blocks)
    if error := _malformed(whole, trial.spec.players):
        yield error
        return
    late = trial.run(trial.match(candidate, champion, _FIRST + 2, _COUNT - 2)).blocks
    early = trial.run(trial.match(candidate, champion, _FIRST, 2)).blocks
    if (*early, *late) != whole:
        yield "match gives a block other scores when the blocks are requested in other chunks"
    stopped = trial.run(trial.match(candidate, champion, _FIRST, _COUNT), Scratch(trial.folder).stop_after(1))
    if tuple(stopped.blocks) != whole[: len(stopped.blocks)] or stopped.partial != (len(stopped.blocks) < _COUNT):
        yield "match, stopped early, does not return the first of its blocks, marked as partial"
    if trial.spec.players == 2:
        mirrored = trial.run(trial.match(champion, candidate, _FIRST, _COUNT)).blocks
        for block, mirror in zip(whole, mirrored, strict=False):
            if abs(sum(block.scores) + sum(mirror.scores) - 2) > _SUM_TOLERANCE:
                yield f"match gives block {block.number} scores that do not mirror when the two models change places"


def _malformed(blocks: Sequence[Block], players: int) -> str | None:
    numbers = [block.number for block in blocks]
    if numbers != list(range(_FIRST, _FIRST + _COUNT)):
        return f"match should return blocks {_FIRST} to {_FIRST + _COUNT - 1}, but returns {numbers}"
    for block in blocks:
        if len(block.scores) != players or not all(isinstance(s, float) and 0 <= s <= 1 for s in block.scores):
            return f"match gives block {block.number} the scores {block.scores} instead of {players} from 0 to 1"
        if block.ranks and (len(block.ranks) != players or not all(0 <= rank <= 1 for rank in block.ranks)):
            return f"match gives block {block.number} the ranks {block.ranks} instead of {players} from 0 to 1"
    return None


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
