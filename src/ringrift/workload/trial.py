"""Trial: jobs of a workload in a plain folder; a failure becomes a sentence, the first one with its traceback."""

import math
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import NamedTuple, TypeVar

from ringrift.kernel.errors import RingriftError
from ringrift.workload.api import Artifact, Block, JobResult, JobSpec, Kind, Refused, Scalar, VariantSpec, Workload
from ringrift.workload.scratch import Scratch

_TRACEBACK_CHARACTERS_MAX = 4000
Player = Artifact | str  #: A model, or the name of a player that never trains.
T = TypeVar("T")


class Broken(Exception):
    """A job did not deliver what the rest of a check needs; the message is a finding."""


class DiskFull(Exception):
    """Raised by a node of the check.  No workload can know it, so none can handle it."""


# Errors that a defect of a workload raises.  Any other error ends the whole check, with its traceback.
DEFECTS = (
    *(ArithmeticError, AssertionError, AttributeError, ImportError, LookupError, NotImplementedError, OSError),
    *(RingriftError, RuntimeError, TypeError, ValueError, Refused, DiskFull),
)


class Loop(NamedTuple):
    """The artifacts of one turn of the loop, with which every check compares, and the jobs that made them."""

    champion: Artifact
    batch: Artifact
    samples: Artifact
    candidate: Artifact
    jobs: tuple[JobSpec, JobSpec, JobSpec, JobSpec]


def attempt(call: Callable[..., T], *args: object) -> T | Exception:
    """What *call* returns, or the error that it raises."""
    try:
        return call(*args)
    except DEFECTS as error:
        return error


@dataclass(slots=True)
class Trial:
    """A workload, one of its variants, and what was found out about it so far."""

    workload: Workload
    spec: VariantSpec
    folder: Path
    seed: int
    games: int
    findings: list[str] = field(default_factory=list)
    _has_traceback: bool = False

    def job(self, stage: str, params: Mapping[str, Scalar] = {}, **inputs: Player) -> JobSpec:
        blobs = {role: (player.blob,) for role, player in inputs.items() if isinstance(player, Artifact)}
        names = {role: player for role, player in inputs.items() if isinstance(player, str)}
        return JobSpec(f"conformance-{stage}", stage, self.spec.name, self.seed, blobs, {**params, **names})

    def scratch(self) -> Scratch:
        return Scratch(self.folder)

    def run(self, job: JobSpec, ctx: Scratch | None = None) -> JobResult:
        """The result of *job*.  Raises Broken if there is none."""
        ctx = ctx or self.scratch()
        result = attempt(self.workload.run, job, ctx)
        if isinstance(result, Refused):
            raise Broken(self.failure(f"{job.stage} refuses good inputs: {result.reason}", result)) from result
        if isinstance(result, Exception):
            raise Broken(self.failure(f"{job.stage} raises {type(result).__name__}: {result}", result)) from result
        if not isinstance(result, JobResult):
            raise Broken(f"{job.stage} returns {type(result).__name__} instead of JobResult")
        if not all(math.isfinite(beat.done) and 0 <= beat.done <= 1 for beat in ctx.beats):
            self.findings.append(f"{job.stage} sends a heartbeat outside of 0 to 1")
        return result

    def failure(self, sentence: str, error: BaseException) -> str:
        """*sentence* and where *error* was raised: the first time its whole traceback, then its file and line."""
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__]
        if self._has_traceback or not frames:
            return f"{sentence} ({frames[-1].filename}:{frames[-1].lineno})" if frames else sentence
        self._has_traceback = True
        lines = "".join([*traceback.format_list(frames), *traceback.format_exception_only(error)])
        return f"{sentence}\n{lines[-_TRACEBACK_CHARACTERS_MAX:].rstrip()}"

    def artifact(self, kind: Kind, job: JobSpec, ctx: Scratch | None = None) -> Artifact:
        """The only artifact of *job*, which must be of *kind* and must have been published."""
        outputs = self.run(job, ctx).outputs
        if (kinds := [output.kind for output in outputs]) != [kind]:
            raise Broken(f"{job.stage} returns {kinds} instead of one {kind} artifact")
        self.read(outputs[0])
        return outputs[0]

    def read(self, artifact: Artifact) -> bytes:
        """The bytes of *artifact*.  Raises Broken if it was never published."""
        try:
            return self.scratch().open_input(artifact.blob).read_bytes()
        except RingriftError as error:
            raise Broken(f"a {artifact.kind} artifact was never published: {error}") from error

    def match(self, candidate: Player, champion: Player, numbers: range, **params: int) -> JobSpec:
        params |= {"first": numbers.start, "count": len(numbers)}
        return self.job("match", params, candidate=candidate, champion=champion)

    def blocks(self, candidate: Player, champion: Player, numbers: range, **params: int) -> tuple[Block, ...]:
        """The blocks of a match.  Raises Broken."""
        return tuple(self.run(self.match(candidate, champion, numbers, **params)).blocks)

    def damaged(self, artifact: Artifact) -> Iterator[tuple[str, Artifact]]:
        """Copies of *artifact* with one bit flipped: the first, middle, last byte and a random one."""
        data = self.read(artifact)
        if not data:
            raise Broken(f"the {artifact.kind} blob is empty")
        for place in sorted({0, len(data) // 2, len(data) - 1, Random(self.seed).randrange(len(data))}):
            damaged = bytearray(data)
            damaged[place] ^= 1
            copy = self.scratch().publish(artifact.kind, bytes(damaged), artifact.meta)
            yield f"a {artifact.kind} blob of {len(data)} bytes with byte {place} flipped", copy

    def refusal(self, job: JobSpec, damage: str, bad: str | None = None) -> Iterator[str]:
        """Findings unless *job*, with *damage*, is refused, whole or the blob *bad* alone."""
        result = attempt(self.workload.run, job, self.scratch())
        if isinstance(result, Refused):
            if bad and result.blob not in (None, bad):
                yield f"{job.stage} refuses {damage}, but names another blob"
        elif isinstance(result, Exception):
            yield self.failure(f"{job.stage} raises {type(result).__name__} instead of Refused for {damage}", result)
        elif bad is None or tuple(result.refused) != (bad,):
            yield f"{job.stage} accepts {damage}"

    def value_error(self, call: Callable[[], object], sentence: str) -> Iterator[str]:
        """Findings unless *call* raises ValueError with a message; *sentence* says what should be refused."""
        error = attempt(call)
        if not isinstance(error, Exception):
            yield f"{sentence}, but it does not"
        elif not isinstance(error, ValueError):
            yield self.failure(f"{sentence}, but it raises {type(error).__name__}", error)
        elif not str(error):
            yield f"{sentence}, but its ValueError has no message"
