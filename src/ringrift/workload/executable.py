"""Executable: any program as a workload, by two commands and JSON; docs/5-write-a-workload.md is the contract."""

import json
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import msgspec

from ringrift.child import OnOutput, run_program
from ringrift.kernel.clock import Clock, SystemClock
from ringrift.kernel.errors import SettingsError
from ringrift.kernel.ids import check_blob
from ringrift.kernel.value import Value
from ringrift.workload import api
from ringrift.workload.api import Block, JobContext, JobResult, JobSpec, Kind, Refused, Scalar, VariantSpec

LINE_BYTES_MAX = 64 * 1024
OUTPUT_BYTES_MAX = 1024**3
_RESULT_BYTES_MAX = 16 * 1024**2
_VARIANTS_BYTES_MAX = 1024**2
_VARIANTS_SECONDS_MAX = 60.0
_STOP_SECONDS_MAX = 30.0  # from SIGTERM until the program is killed; enough to write down what it has
_DONE, _REFUSED, _PARTIAL = 0, 65, 75
_METRICS_MAX = 64


class _Offer(Value):
    version: Annotated[str, msgspec.Meta(min_length=1)]
    variants: tuple[VariantSpec, ...]


class _Output(Value):
    kind: Kind
    file: str
    meta: dict[str, Scalar] = msgspec.field(default_factory=dict)


class _Result(Value):
    outputs: tuple[_Output, ...] = ()
    metrics: dict[str, float] = msgspec.field(default_factory=dict)
    blocks: tuple[Block, ...] = ()
    settings: Annotated[str, msgspec.Meta(max_length=api.SETTINGS_LENGTH_MAX)] = ""
    refused: tuple[str, ...] = ()


class Executable:
    """The workload *name* that *command* runs.  The program is asked for its variants once, here.

    Raises SettingsError for a *command* that is no argv, RuntimeError if the program breaks the contract.
    """

    def __init__(self, name: str, command: Sequence[str], clock: Clock | None = None) -> None:
        if isinstance(command, str) or not command or not all(isinstance(word, str) and word for word in command):
            raise SettingsError(f"workloads.{name}.command", command, "a list of words, the program first")
        self.name, self._command, self._clock = name, tuple(command), clock or SystemClock()
        offer = self._read_offer()
        self.version, self._variants = offer.version, offer.variants

    def variants(self) -> Sequence[VariantSpec]:
        return self._variants

    def run(self, job: JobSpec, ctx: JobContext) -> JobResult:
        """Run the program on *job*.  Raises Refused if it refuses, RuntimeError if it fails or breaks the contract."""
        with tempfile.TemporaryDirectory(prefix="ringrift-", ignore_cleanup_errors=True) as name:
            folder = Path(name)
            _write_job(folder, job, ctx)
            paths = ("--job", folder / "job.json", "--in", folder / "in", "--out", folder / "out")
            code, errors = self._execute(("run", *map(str, paths)), _beat_on_progress(ctx), ctx.should_stop)
            if code == _REFUSED:
                reason = errors.splitlines()[-1] if errors else "refused without a reason"
                raise Refused(reason, next((blob for blob in _inputs(job) if blob in reason), None))
            if code not in (_DONE, _PARTIAL):
                raise RuntimeError(f"workload {self.name!r} ended with {code}: {errors or 'no output on stderr'}")
            return self._collect(folder / "out", ctx, partial=code == _PARTIAL)

    def _read_offer(self) -> _Offer:
        output = bytearray()

        def collect(data: bytes) -> None:
            output.extend(data)
            if len(output) > _VARIANTS_BYTES_MAX:
                raise RuntimeError(f"workload {self.name!r} prints more than {_VARIANTS_BYTES_MAX} bytes of variants")

        end = self._clock.tick() + _VARIANTS_SECONDS_MAX
        code, errors = self._execute(("variants",), collect, lambda: self._clock.tick() > end)
        if code != _DONE:
            raise RuntimeError(f'workload {self.name!r}: the command "variants" ended with {code}: {errors}')
        try:
            offer = msgspec.json.decode(output, type=_Offer)
            for spec in offer.variants:
                hints = (spec.cpu_seconds_per_game, spec.opening_plies, spec.games_per_batch, spec.slots)
                if min(spec.players, spec.actions) < 1 or min(hints) < 0:
                    raise msgspec.ValidationError(f"variant {spec.name!r:.80} has a number that is too small")
            return offer
        except msgspec.DecodeError as error:
            raise RuntimeError(f'workload {self.name!r}: the command "variants" printed bad JSON: {error}') from error

    def _execute(self, words: Sequence[str], on_output: OnOutput, should_stop: Callable[[], bool]) -> tuple[int, str]:
        """Run the program to its end: its exit code and the end of its stderr."""
        argv, is_job, limit = (*self._command, *words), words[0] == "run", _STOP_SECONDS_MAX
        execute = partial(run_program, stop_seconds_max=limit, clock=self._clock, passes_errors=is_job)
        try:  # the stderr of a job goes to ours, which in a worker is the output of the job
            return execute(argv, on_output, should_stop)
        except OSError as error:
            raise RuntimeError(f"workload {self.name!r} cannot be started: {error}") from error

    def _collect(self, out: Path, ctx: JobContext, partial: bool) -> JobResult:
        try:
            result = msgspec.json.decode(self._read_output(out, "result.json", _RESULT_BYTES_MAX), type=_Result)
            for block in result.blocks:
                if block.number < 0 or not all(0 <= share <= 1 for share in (*block.scores, *block.ranks)):
                    raise msgspec.ValidationError(f"block {block.number} needs numbers from 0 to 1")
        except msgspec.DecodeError as error:
            raise RuntimeError(f"workload {self.name!r} wrote a bad result.json: {error}") from error
        outputs = tuple(
            ctx.publish(output.kind, self._read_output(out, output.file, OUTPUT_BYTES_MAX), output.meta)
            for output in result.outputs
        )
        return JobResult(outputs, result.metrics, result.blocks, partial, result.settings, result.refused)

    def _read_output(self, out: Path, name: str, limit: int) -> bytes:
        """The file *name* in *out*.  Raises RuntimeError unless it is a plain file, right there, and not too large."""
        if name in ("", ".", "..") or "/" in name or "\0" in name:
            raise RuntimeError(f"workload {self.name!r} lists the output {name!r:.80}, which is not a plain file name")
        flags = os.O_NOFOLLOW | os.O_NONBLOCK  # opening a named pipe would block for ever
        try:
            with open(out / name, "rb", opener=lambda path, mode: os.open(path, mode | flags)) as file:
                status = os.fstat(file.fileno())
                if stat.S_ISREG(status.st_mode) and status.st_size <= limit:
                    return file.read(limit)
        except OSError as error:
            raise RuntimeError(f"workload {self.name!r} left no output {name!r:.80}: {error.strerror}") from error
        raise RuntimeError(f"the output {name!r:.80} of workload {self.name!r} is no plain file of up to {limit} bytes")


def _beat_on_progress(ctx: JobContext) -> OnOutput:
    """Turns a program's lines into heartbeats: of lines that arrive together, the last good one."""
    line = bytearray()

    def feed(data: bytes) -> None:
        *ended, rest = data.split(b"\n")
        latest: tuple[float, Mapping[str, float]] | None = None
        for piece in ended:
            line.extend(piece)
            latest = _parse_progress(line) or latest
            line.clear()
        line.extend(rest)
        del line[LINE_BYTES_MAX + 1 :]  # one byte over the limit is enough to know that it is too long
        if latest:
            ctx.heartbeat(latest[0], **latest[1])

    return feed


def _parse_progress(line: bytes | bytearray) -> tuple[float, Mapping[str, float]] | None:
    """The share that is done and the metrics beside it; None if *line* is no progress."""
    if len(line) > LINE_BYTES_MAX:
        return None
    try:
        progress = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError):
        return None
    if not isinstance(progress, dict) or not _is_number(done := progress.pop("done", None)) or not 0 <= done <= 1:
        return None
    progress.pop("self", None)  # metrics become keyword arguments, and this name is taken
    metrics = [(name, float(value)) for name, value in progress.items() if name.isidentifier() and _is_number(value)]
    return float(done), dict(metrics[:_METRICS_MAX])


def _is_number(value: object) -> bool:
    # Beyond the bound lie whole numbers that no float holds.
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300


def _write_job(folder: Path, job: JobSpec, ctx: JobContext) -> None:
    """Write the job and its inputs into *folder*, with an empty folder ``out`` for its outputs."""
    (folder / "in").mkdir()
    (folder / "out").mkdir()
    for blob in dict.fromkeys(_inputs(job)):
        # A copy: the program may do with it what it likes, and the blob is perhaps the only one there is.
        copy = folder / "in" / check_blob(blob)
        shutil.copyfile(ctx.open_input(blob), copy)
        copy.chmod(0o400)
    spec = {name: getattr(job, name) for name in JobSpec.__slots__} | {"params": dict(job.params)}
    spec["inputs"] = {role: list(blobs) for role, blobs in job.inputs.items()}
    (folder / "job.json").write_text(json.dumps(spec, allow_nan=False))


def _inputs(job: JobSpec) -> list[str]:
    return [blob for blobs in job.inputs.values() for blob in blobs]
