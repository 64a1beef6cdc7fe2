"""Conformance: tries a workload against all that the loop relies on, and says in sentences where it falls short.

python -m ringrift.workload.conformance NAME VARIANT [--seed N] [--games N] [--command PROGRAM …]
"""

import argparse
import math
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from ringrift.kernel.errors import RingriftError
from ringrift.workload.api import Artifact, Block, JobResult, JobSpec, Kind, Refused, Scalar, VariantSpec, Workload
from ringrift.workload.registry import Registry
from ringrift.workload.scratch import Killed, Scratch

FIRST, COUNT = 3, 6  # the blocks of the trial matches; not from 0, so that a wrong start shows
CHECKPOINTS_MAX = 3  # a job is killed after each of its first so many checkpoints
SUM_TOLERANCE = 1e-9

# What mistakes raise.  Anything stranger ends the whole check, with its traceback.
_MISTAKES = (
    *(ArithmeticError, AssertionError, AttributeError, ImportError, LookupError),
    *(OSError, RingriftError, RuntimeError, TypeError, ValueError),
)


class _Broken(Exception):
    """A job did not give what the rest of a check needs; the message is a finding."""


@dataclass(frozen=True, slots=True)
class _Bench:
    workload: Workload
    spec: VariantSpec
    folder: Path
    seed: int
    games: int
    findings: list[str] = field(default_factory=list)

    def job(
        self, stage: str, inputs: Mapping[str, Sequence[str]], params: Mapping[str, Scalar], attempt: int = 1
    ) -> JobSpec:
        name = f"conformance-{stage}"
        return JobSpec(name, stage, self.spec.name, self.seed, inputs=inputs, params=params, attempt=attempt)

    def scratch(self) -> Scratch:
        return Scratch(self.folder, durable=False)

    def run(self, job: JobSpec, ctx: Scratch | None = None) -> JobResult:
        ctx = ctx or self.scratch()
        try:
            result = self.workload.run(job, ctx)
        except Refused as refused:
            raise _Broken(f"{job.stage} refuses good inputs: {refused.reason}") from refused
        except _MISTAKES as mistake:
            raise _Broken(f"{job.stage} raises {type(mistake).__name__}: {mistake}") from mistake
        if not isinstance(result, JobResult):
            raise _Broken(f"{job.stage} returns {type(result).__name__} instead of JobResult")
        if not all(math.isfinite(beat.done) and 0 <= beat.done <= 1 for beat in ctx.beats):
            self.findings.append(f"{job.stage} gives a heartbeat outside of 0 to 1")
        return result

    def one(self, kind: Kind, job: JobSpec, ctx: Scratch | None = None) -> Artifact:
        """The only artifact of *job*, which must be of *kind* and must have been published."""
        outputs = self.run(job, ctx).outputs
        if [output.kind for output in outputs] != [kind]:
            raise _Broken(f"{job.stage} gives {[output.kind for output in outputs]} instead of one {kind} artifact")
        self.read(outputs[0])
        return outputs[0]

    def read(self, artifact: Artifact) -> bytes:
        try:
            return self.scratch().open_input(artifact.blob).read_bytes()
        except RingriftError as absent:
            raise _Broken(f"a {artifact.kind} artifact was never published: {absent}") from absent

    def birth(self, attempt: int = 1) -> JobSpec:
        return self.job("train", {}, {}, attempt)

    def play(self, model: Artifact, attempt: int = 1) -> JobSpec:
        return self.job("play", {"model": (model.blob,)}, {"games": self.games}, attempt)

    def export(self, *batches: Artifact, attempt: int = 1) -> JobSpec:
        return self.job("export", {"batches": tuple(batch.blob for batch in batches)}, {}, attempt)

    def train(self, samples: Artifact, parent: Artifact, attempt: int = 1) -> JobSpec:
        return self.job("train", {"samples": (samples.blob,), "parent": (parent.blob,)}, {}, attempt)

    def match(self, one: Artifact, other: Artifact, first: int, count: int) -> JobSpec:
        inputs = {"candidate": (one.blob,), "champion": (other.blob,)}
        return self.job("match", inputs, {"first": first, "count": count})


@dataclass(frozen=True, slots=True)
class _Loop:
    """One turn of the loop: what every check compares with."""

    champion: Artifact
    batch: Artifact
    samples: Artifact
    candidate: Artifact


def check(workload: Workload, variant: str, folder: Path, seed: int = 0, *, games: int = 8) -> list[str]:
    """What *workload* gets wrong in *variant*, a sentence each; nothing if it conforms.  Blobs are left in *folder*."""
    spec = next((spec for spec in workload.variants() if spec.name == variant), None)
    if spec is None:
        return [f"{workload.name} does not offer {variant}"]
    bench = _Bench(workload, spec, folder, seed, games)
    try:
        loop = _turn(bench)
    except _Broken as broken:
        return [*bench.findings, str(broken)]
    for examine in (_counts, _repeats, _stops, _resumes, _verifies, _rejects, _matches):
        try:
            for finding in examine(bench, loop):
                bench.findings.append(finding)
        except _Broken as broken:
            bench.findings.append(str(broken))
    return list(dict.fromkeys(bench.findings))


def _turn(bench: _Bench) -> _Loop:
    champion = bench.one("model", bench.birth())
    batch = bench.one("games", bench.play(champion))
    samples = bench.one("samples", bench.export(batch))
    return _Loop(champion, batch, samples, bench.one("model", bench.train(samples, champion)))


def _counts(bench: _Bench, loop: _Loop) -> Iterator[str]:
    if loop.batch.meta.get("games") != bench.games:
        yield f"play was asked for {bench.games} games, but its meta says games = {loop.batch.meta.get('games')!r}"
    if loop.samples.meta.get("games") != bench.games:
        yield f"export was given {bench.games} games, but its meta says games = {loop.samples.meta.get('games')!r}"
    samples = loop.samples.meta.get("samples")
    if not isinstance(samples, int) or samples < 1:
        yield f"export says samples = {samples!r} instead of how many there are"


def _repeats(bench: _Bench, loop: _Loop) -> Iterator[str]:
    """The same job twice gives the same blob, whatever the attempt."""
    for first, job in (
        (loop.champion, bench.birth(attempt=2)),
        (loop.batch, bench.play(loop.champion, attempt=2)),
        (loop.samples, bench.export(loop.batch, attempt=2)),
        (loop.candidate, bench.train(loop.samples, loop.champion, attempt=2)),
    ):
        if bench.one(first.kind, job).blob != first.blob:
            given = f"the same {' and '.join(job.inputs)}" if job.inputs else "nothing"
            yield f"{job.stage}, given {given} and the same seed, makes another {first.kind} blob the second time"


def _stops(bench: _Bench, loop: _Loop) -> Iterator[str]:
    """A play that was stopped leaves a whole batch, which export takes."""
    whole = bench.scratch()
    bench.run(bench.play(loop.champion), whole)
    if not whole.beats:
        yield "play gives no heartbeat, so a long one would be taken away"
    for beats in sorted({1, max(1, len(whole.beats) // 2)}):
        result = bench.run(bench.play(loop.champion), bench.scratch().stop_after(beats))
        if [output.kind for output in result.outputs] != ["games"]:
            yield f"play, stopped after {beats} heartbeats, does not give one games artifact"
            continue
        games = result.outputs[0].meta.get("games")
        if not isinstance(games, int) or not 1 <= games <= bench.games:
            yield f"play, stopped after {beats} heartbeats, says games = {games!r}"
        elif result.partial != (games < bench.games):
            yield f"play, stopped after {games} of {bench.games} games, says partial = {result.partial}"
        elif bench.one("samples", bench.export(result.outputs[0])).meta.get("games") != games:
            yield f"export finds another number than {games} games in a batch that was stopped"


def _resumes(bench: _Bench, loop: _Loop) -> Iterator[str]:
    """A job that died and was taken up from its checkpoint gives what it would have given in one go."""
    for whole, jobs in (
        (loop.batch, [bench.play(loop.champion, attempt) for attempt in (1, 2)]),
        (loop.candidate, [bench.train(loop.samples, loop.champion, attempt) for attempt in (1, 2)]),
    ):
        for checkpoints in range(1, CHECKPOINTS_MAX + 1):
            dying = bench.scratch().kill_after(checkpoints)
            try:
                bench.run(jobs[0], dying)
                break  # it has no more checkpoints to be killed after
            except Killed:
                if bench.one(whole.kind, jobs[1], dying.again()).blob != whole.blob:
                    yield f"{jobs[0].stage}, resumed from checkpoint {checkpoints}, makes another blob than in one go"


def _verifies(bench: _Bench, loop: _Loop) -> Iterator[str]:
    for model in (loop.champion, loop.candidate):
        bench.run(bench.job("verify", {"model": (model.blob,)}, {}))
    for place, bad in _damaged(bench, loop.candidate):
        yield from _refusal(bench, bench.job("verify", {"model": (bad.blob,)}, {}), bad, place)


def _rejects(bench: _Bench, loop: _Loop) -> Iterator[str]:
    for place, bad in _damaged(bench, loop.batch):
        yield from _refusal(bench, bench.export(loop.batch, bad), bad, place)


def _damaged(bench: _Bench, artifact: Artifact) -> Iterator[tuple[int, Artifact]]:
    """Copies of *artifact* with one bit flipped: at the beginning, in the middle, at the end and somewhere."""
    data = bench.read(artifact)
    if not data:
        raise _Broken(f"the {artifact.kind} blob is empty")
    for place in sorted({0, len(data) // 2, len(data) - 1, Random(bench.seed).randrange(len(data))}):
        damaged = bytearray(data)
        damaged[place] ^= 1
        yield place, bench.scratch().publish(artifact.kind, bytes(damaged), artifact.meta)


def _refusal(bench: _Bench, job: JobSpec, bad: Artifact, place: int) -> Iterator[str]:
    damage = f"a {bad.kind} blob of {bad.size} bytes with byte {place} flipped"
    try:
        result = bench.workload.run(job, bench.scratch())
    except Refused as refused:
        if refused.blob not in (None, bad.blob):
            yield f"{job.stage} refuses {damage}, but blames another blob"
    except _MISTAKES as mistake:
        yield f"{job.stage} raises {type(mistake).__name__} instead of Refused for {damage}"
    else:
        if tuple(result.refused) != (bad.blob,):
            yield f"{job.stage} accepts {damage}"


def _matches(bench: _Bench, loop: _Loop) -> Iterator[str]:
    one, other = loop.candidate, loop.champion
    whole = tuple(bench.run(bench.match(one, other, FIRST, COUNT)).blocks)
    if wrong := _misshapen(whole, bench.spec.players):
        yield wrong
        return
    late = bench.run(bench.match(one, other, FIRST + 2, COUNT - 2)).blocks
    early = bench.run(bench.match(one, other, FIRST, 2)).blocks
    if (*early, *late) != whole:
        yield "match gives a block other scores when the blocks are asked for in other chunks"
    stopped = bench.run(bench.match(one, other, FIRST, COUNT), bench.scratch().stop_after(1))
    if tuple(stopped.blocks) != whole[: len(stopped.blocks)] or stopped.partial != (len(stopped.blocks) < COUNT):
        yield "match, stopped early, does not give the first of its blocks, marked as partial"
    if bench.spec.players == 2:
        back = bench.run(bench.match(other, one, FIRST, COUNT)).blocks
        for there, here in zip(whole, back, strict=False):
            if abs(sum(there.scores) + sum(here.scores) - 2) > SUM_TOLERANCE:
                yield f"match gives block {there.number} scores that do not mirror when the two models change places"


def _misshapen(blocks: Sequence[Block], players: int) -> str | None:
    numbers = [block.number for block in blocks]
    if numbers != list(range(FIRST, FIRST + COUNT)):
        return f"match was asked for blocks {FIRST} to {FIRST + COUNT - 1}, but gives {numbers}"
    for block in blocks:
        if len(block.scores) != players or not all(isinstance(s, float) and 0 <= s <= 1 for s in block.scores):
            return f"match gives block {block.number} the scores {block.scores} instead of {players} from 0 to 1"
        if block.ranks and (len(block.ranks) != players or not all(0 <= rank <= 1 for rank in block.ranks)):
            return f"match gives block {block.number} the ranks {block.ranks} instead of {players} from 0 to 1"
    return None


def main(words: Sequence[str] | None = None) -> int:
    """Print the findings.  0 if there are none, 1 if there are; exits with 2 if the workload cannot be had."""
    parser = argparse.ArgumentParser(prog="ringrift.workload.conformance", description=check.__doc__)
    parser.add_argument("name", help="the workload, as installed, or any name with --command")
    parser.add_argument("variant", help="for instance hex8_2p")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--games", type=int, default=8, help="how many games a trial play has")
    parser.add_argument("--command", nargs=argparse.REMAINDER, help="the program of an executable; must come last")
    asked = parser.parse_args(words)
    try:
        workload = Registry.load({asked.name: asked.command} if asked.command else {}).get(asked.name)
    except (RingriftError, RuntimeError) as problem:
        parser.error(str(problem))
    with tempfile.TemporaryDirectory(prefix="ringrift-") as folder:
        findings = check(workload, asked.variant, Path(folder), asked.seed, games=asked.games)
    sys.stdout.writelines(f"{finding}\n" for finding in findings)
    sys.stdout.write(f"{asked.name} {asked.variant}: {f'{len(findings)} findings' if findings else 'conforms'}\n")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
