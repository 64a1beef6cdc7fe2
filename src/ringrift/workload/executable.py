"""Executable: any program as a workload, by two commands and JSON.

CMD variants                              prints {"version": "1", "variants": [{"name": "hex8_2p", "players": 2,
                                          "actions": 61, "cpu_seconds_per_game": 0.02}]}
CMD run --job FILE --in DIR --out DIR     FILE is the JobSpec as JSON; DIR holds the inputs, named by blob id

While it runs, it prints progress, one JSON object a line: {"done": 0.4, "games": 512}.  SIGTERM asks it to stop early;
it may come as late as the program's very last moment, and should be ignored there.
The environment variable TRACEPARENT says where the job stands in its trace, as W3C writes it, if it belongs to one.
It ends with 0 (done), 75 (stopped early, what it lists is whole), 65 (refused: the last line on stderr says why, and
may name the bad blob) or anything else (failed), and leaves OUT/result.json:

{"outputs": [{"kind": "games", "file": "a.bin", "meta": {"games": 512}}], "metrics": {},
 "blocks": [{"number": 0, "scores": [1.0, 0.5], "ranks": [1.0, 0.5]}], "settings": "sims=16", "refused": ["<blob>"]}
"""

import json
import math
import os
import selectors
import stat
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import msgspec

from ringrift.kernel.clock import Clock, SystemClock
from ringrift.kernel.errors import SettingsError
from ringrift.kernel.ids import check_blob
from ringrift.kernel.value import Value
from ringrift.workload.api import (
    SETTINGS_LETTERS_MAX,
    Block,
    JobContext,
    JobResult,
    JobSpec,
    Kind,
    Refused,
    Scalar,
    VariantSpec,
)

LINE_BYTES_MAX = 64 * 1024
STDERR_BYTES_MAX = 4 * 1024
OUTPUT_BYTES_MAX = 1024**3
RESULT_BYTES_MAX = 16 * 1024**2
VARIANTS_BYTES_MAX = 1024**2
VARIANTS_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 30.0
"""How long a program may take to write down what it has once it was asked to stop; then it is killed."""

_POLL_SECONDS = 0.1  # how late a wish to stop may reach the program
_DONE, _REFUSED, _PARTIAL = 0, 65, 75
_METRICS_MAX = 64
_LAST_READS_MAX = 64  # a pipe holds 64 KiB, or 1 MiB where somebody enlarged it


class _Variant(Value):
    name: str
    players: Annotated[int, msgspec.Meta(ge=1)]
    actions: Annotated[int, msgspec.Meta(ge=1)]
    cpu_seconds_per_game: Annotated[float, msgspec.Meta(ge=0)]


class _Offer(Value):
    version: Annotated[str, msgspec.Meta(min_length=1)]
    variants: tuple[_Variant, ...]


class _Output(Value):
    kind: Kind
    file: str
    meta: dict[str, Scalar] = msgspec.field(default_factory=dict)


_Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class _Block(Value):
    number: Annotated[int, msgspec.Meta(ge=0)]
    scores: tuple[_Share, ...]
    ranks: tuple[_Share, ...] = ()


class _Result(Value):
    outputs: tuple[_Output, ...] = ()
    metrics: dict[str, float] = msgspec.field(default_factory=dict)
    blocks: tuple[_Block, ...] = ()
    settings: Annotated[str, msgspec.Meta(max_length=SETTINGS_LETTERS_MAX)] = ""
    refused: tuple[str, ...] = ()


class Executable:
    """The workload *name* that *command* runs.  Asks the program once, here, what it offers.

    Raises SettingsError for a *command* that is no argv, RuntimeError if the program does not answer as it should.
    """

    def __init__(self, name: str, command: Sequence[str], clock: Clock | None = None) -> None:
        if isinstance(command, str) or not command or not all(isinstance(word, str) and word for word in command):
            raise SettingsError(f"workloads.{name}.command", command, "a list of words, the program first")
        self.name = name
        self._command = tuple(command)
        self._clock = clock or SystemClock()
        offer = self._ask()
        self.version = offer.version
        self._variants = tuple(
            VariantSpec(spec.name, spec.players, spec.actions, spec.cpu_seconds_per_game) for spec in offer.variants
        )

    def variants(self) -> Sequence[VariantSpec]:
        return self._variants

    def run(self, job: JobSpec, ctx: JobContext) -> JobResult:
        """Run the program on *job*.  Raises Refused if it refuses, RuntimeError if it fails or breaks the contract."""
        with tempfile.TemporaryDirectory(prefix="ringrift-", ignore_cleanup_errors=True) as name:
            folder = Path(name)
            out = _lay_out(folder, job, ctx)
            argv = (
                *self._command,
                "run",
                "--job",
                str(folder / "job.json"),
                "--in",
                str(folder / "in"),
                "--out",
                str(out),
            )
            code, said = self._execute(argv, _Progress(ctx).feed, ctx.should_stop)
            if code == _REFUSED:
                raise _refusal(job, said)
            if code not in (_DONE, _PARTIAL):
                raise RuntimeError(f"workload {self.name!r} ended with {code}: {said or 'it said nothing on stderr'}")
            return self._collect(out, ctx, partial=code == _PARTIAL)

    def _ask(self) -> _Offer:
        answer = bytearray()

        def listen(data: bytes) -> None:
            answer.extend(data)
            if len(answer) > VARIANTS_BYTES_MAX:
                raise RuntimeError(f"workload {self.name!r} offers more than {VARIANTS_BYTES_MAX} bytes of variants")

        end = self._clock.tick() + VARIANTS_SECONDS_MAX
        code, said = self._execute((*self._command, "variants"), listen, lambda: self._clock.tick() > end)
        if code != _DONE:
            raise RuntimeError(f"workload {self.name!r} does not say what it plays, but ends with {code}: {said}")
        try:
            return msgspec.json.decode(answer, type=_Offer)
        except msgspec.DecodeError as bad:
            raise RuntimeError(f"workload {self.name!r} says what it plays in a way that is not ours: {bad}") from bad

    def _execute(
        self, argv: Sequence[str], listen: Callable[[bytes], None], should_stop: Callable[[], bool]
    ) -> tuple[int, str]:
        """Run *argv* to its end: its exit code, and the tail of its stderr."""
        try:
            process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
            )
        except OSError as bad:
            raise RuntimeError(f"workload {self.name!r} cannot be started: {bad}") from bad
        tail = _Tail()
        with process, selectors.DefaultSelector() as watched:
            try:
                for pipe, hear in ((process.stdout, listen), (process.stderr, tail.feed)):
                    assert pipe is not None
                    os.set_blocking(pipe.fileno(), False)
                    watched.register(pipe, selectors.EVENT_READ, hear)
                self._attend(process, watched, should_stop)
            finally:
                process.kill()  # of no effect on one that has ended; __exit__ then waits for it
        return process.returncode, tail.text()

    def _attend(
        self, process: subprocess.Popen[bytes], watched: selectors.BaseSelector, should_stop: Callable[[], bool]
    ) -> None:
        deadline = math.inf
        while process.poll() is None:
            _hear(process, watched, _POLL_SECONDS)
            if deadline == math.inf and should_stop():
                process.terminate()
                deadline = self._clock.tick() + STOP_SECONDS_MAX
            if self._clock.tick() > deadline:
                process.kill()
        # What it said last may still be in the pipes; a pipe that a grandchild keeps open is not waited for.
        for _ in range(_LAST_READS_MAX):
            if not _hear(process, watched, 0):
                break

    def _collect(self, out: Path, ctx: JobContext, partial: bool) -> JobResult:
        try:
            result = msgspec.json.decode(self._output(out, "result.json", RESULT_BYTES_MAX), type=_Result)
        except msgspec.DecodeError as bad:
            raise RuntimeError(f"workload {self.name!r} wrote a bad result.json: {bad}") from bad
        outputs = tuple(
            ctx.publish(output.kind, self._output(out, output.file, OUTPUT_BYTES_MAX), output.meta)
            for output in result.outputs
        )
        blocks = tuple(Block(block.number, block.scores, block.ranks) for block in result.blocks)
        made, refused = result.metrics, result.refused
        return JobResult(
            outputs=outputs, metrics=made, blocks=blocks, partial=partial, settings=result.settings, refused=refused
        )

    def _output(self, out: Path, name: str, limit: int) -> bytes:
        """The file *name* in *out*.  Raises RuntimeError unless it is a plain file, right there, and not too large."""
        if name in ("", ".", "..") or "/" in name or "\0" in name:
            raise RuntimeError(f"workload {self.name!r} names {name!r:.80} as an output, which is no plain file name")
        try:
            # Without NONBLOCK a named pipe would hold us for ever.
            handle = os.open(out / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError as bad:
            raise RuntimeError(f"workload {self.name!r} left no output {name!r:.80}: {bad.strerror}") from bad
        try:
            found = os.fstat(handle)
            if not stat.S_ISREG(found.st_mode) or found.st_size > limit:
                raise RuntimeError(f"workload {self.name!r} left {name!r:.80}, which is no file of up to {limit} bytes")
            with open(handle, "rb", closefd=False) as file:
                return file.read(limit)
        finally:
            os.close(handle)


class _Tail:
    """The last of what a program says on stderr."""

    def __init__(self) -> None:
        self._data = b""

    def feed(self, data: bytes) -> None:
        self._data = (self._data + data)[-STDERR_BYTES_MAX:]

    def text(self) -> str:
        return self._data.decode(errors="replace").strip()


class _Progress:
    """Makes heartbeats of a program's lines.  Of lines that come at once, the last good one is the heartbeat."""

    def __init__(self, ctx: JobContext) -> None:
        self._ctx = ctx
        self._line = bytearray()

    def feed(self, data: bytes) -> None:
        *ended, rest = data.split(b"\n")
        latest: tuple[float, Mapping[str, float]] | None = None
        for piece in ended:
            self._line += piece
            latest = _progress(self._line) or latest
            self._line.clear()
        self._line += rest
        del self._line[LINE_BYTES_MAX + 1 :]  # one byte over the limit is enough to know that it is too long
        if latest:
            self._ctx.heartbeat(latest[0], **latest[1])


def _progress(line: bytes | bytearray) -> tuple[float, Mapping[str, float]] | None:
    """How much is done, and the metrics beside it; None if *line* does not say."""
    if len(line) > LINE_BYTES_MAX:
        return None
    try:
        said = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError):
        return None
    if not isinstance(said, dict) or not _is_number(done := said.pop("done", None)) or not 0 <= done <= 1:
        return None
    said.pop("self", None)  # metrics become named arguments, and this name is taken
    metrics = [(name, float(value)) for name, value in said.items() if name.isidentifier() and _is_number(value)]
    return float(done), dict(metrics[:_METRICS_MAX])


def _is_number(value: object) -> bool:
    # Beyond the bound lie whole numbers that no float holds.
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300


def _hear(process: subprocess.Popen[bytes], watched: selectors.BaseSelector, seconds: float) -> bool:
    """Hand on what the program says within *seconds*.  False if it said nothing."""
    if not watched.get_map():
        with suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
        return False
    ready = watched.select(seconds)
    for key, _ in ready:
        if data := os.read(key.fd, LINE_BYTES_MAX):
            key.data(data)
        else:
            watched.unregister(key.fileobj)
    return bool(ready)


def _lay_out(folder: Path, job: JobSpec, ctx: JobContext) -> Path:
    """Put the job and its inputs into *folder*.  The place for its outputs."""
    inputs, out = folder / "in", folder / "out"
    inputs.mkdir()
    out.mkdir()
    for blob in dict.fromkeys(blob for blobs in job.inputs.values() for blob in blobs):
        (inputs / check_blob(blob)).symlink_to(ctx.open_input(blob).resolve())
    spec = {
        "job": job.job,
        "stage": job.stage,
        "variant": job.variant,
        "seed": job.seed,
        "inputs": {role: list(blobs) for role, blobs in job.inputs.items()},
        "params": dict(job.params),
        "attempt": job.attempt,
    }
    (folder / "job.json").write_text(json.dumps(spec, allow_nan=False))
    return out


def _refusal(job: JobSpec, said: str) -> Refused:
    reason = said.splitlines()[-1] if said else "refused without a reason"
    named = (blob for blobs in job.inputs.values() for blob in blobs if blob in reason)
    return Refused(reason, next(named, None))
