"""Kit: what every game's workload needs and no game is about: sealed files, chunks of work, openings, blocks, stages.

Standard library only.  ``ringrift.workload.game`` makes a whole workload of it; use it alone for stages of your own.
"""

import hashlib
import json
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count, islice
from random import Random
from typing import Any, NamedTuple, TypeVar

from ringrift.workload.api import Block, Board, JobContext, JobResult, JobSpec, Refused, VariantSpec, Workload

BYTES_MAX = 256 * 1024 * 1024
COUNT_MAX = 100_000  # games of one play, blocks of one match
_LINE_BYTES_MAX = 4 * 1024 * 1024
_PLIES_MAX = 10_000  # of one game
_HASH_BYTES = 32
_BEATS, _CHECKPOINTS = 64, 8  # of one job, at most
_DRAWS = 8  # of an opening before it gets one ply more, and plies more before one may come twice
B = TypeVar("B", bound=Board)
T = TypeVar("T")


def random_of(*parts: object) -> Random:
    """Random numbers that depend on *parts* alone, on every machine."""
    return Random(hashlib.sha256("\x1f".join(map(str, parts)).encode(errors="backslashreplace")).digest())


def int_param(job: JobSpec, name: str, default: int | None, least: int, most: int) -> int:
    """The param *name*.  Raises Refused unless it is a whole number from *least* to *most*."""
    value = job.params.get(name, default)
    if type(value) is not int or not least <= value <= most:
        raise Refused(f"{job.stage} needs {name} from {least} to {most}, not {value!r:.80}")
    return value


def only_input(job: JobSpec, role: str) -> str:
    """The one blob of *role*.  Raises Refused if there are more or fewer."""
    blobs = job.inputs.get(role, ())
    if len(blobs) != 1:
        raise Refused(f"{job.stage} needs exactly one {role}, not {len(blobs)}")
    return blobs[0]


# Sealed files: a line of JSON, the payload, and the SHA-256 of both.  Only the very bytes that we would write are read.


class File(NamedTuple):
    """What a sealed file holds."""

    meta: Mapping[str, Any]
    payload: bytes = b""


def seal(kind: str, variant: str, meta: Mapping[str, Any], payload: bytes = b"", *, form: str) -> bytes:
    """A file of *kind*, *variant* and *form* (name and version of its format); the same contents, the same bytes.

    Raises ValueError if it would be too large to be read.
    """
    line = _first_line({**meta, "form": form, "kind": kind, "variant": variant})
    if len(line) > _LINE_BYTES_MAX or len(line) + len(payload) + _HASH_BYTES > BYTES_MAX:
        raise ValueError(f"a {kind} file of {len(line) + len(payload)} bytes is larger than {BYTES_MAX}")
    data = line + payload
    return data + hashlib.sha256(data).digest()


def _first_line(header: Mapping[str, Any]) -> bytes:
    return json.dumps(header, sort_keys=True, separators=(",", ":")).encode() + b"\n"


def unseal(data: bytes, kind: str, variant: str, *, form: str) -> File:
    """The contents of a file of *seal*.  Raises ValueError for a flipped bit, or another kind, variant or form."""
    data, checksum = data[:-_HASH_BYTES], data[-_HASH_BYTES:]
    if hashlib.sha256(data).digest() != checksum:
        raise ValueError("its checksum is wrong")
    end = data.find(b"\n", 0, _LINE_BYTES_MAX) + 1
    try:
        header = json.loads(data[:end])
        is_canonical = isinstance(header, dict) and _first_line(header) == data[:end]
    except (ValueError, RecursionError) as error:
        raise ValueError("its first line is no JSON") from error
    if not is_canonical:
        raise ValueError("its first line is not canonical")
    for name, value in (("form", form), ("kind", kind), ("variant", variant)):
        if (actual := header.pop(name, None)) != value:
            raise ValueError(f"its {name} is {actual!r:.40}, not {value}")
    return File(header, data[end:])


def read_input(ctx: JobContext, role: str, blob: str, decode: Callable[[bytes], T], bytes_max: int = BYTES_MAX) -> T:
    """*blob*, decoded.  Raises Refused, which names it, if it is too large or *decode* raises ValueError."""
    with ctx.open_input(blob).open("rb") as file:
        data = file.read(bytes_max + 1)
    try:
        if len(data) > bytes_max:
            raise ValueError(f"it has more than {bytes_max} bytes")
        return decode(data)
    except ValueError as error:
        raise Refused(f"{role} {blob[:12]} is refused: {error}", blob) from error


def join(parts: Sequence[bytes]) -> bytes:
    """*parts* as one, each behind its length."""
    return b"".join(piece for part in parts for piece in (len(part).to_bytes(4, "big"), part))


def split(data: bytes) -> list[bytes]:
    """The parts of *join*.  Raises ValueError."""
    parts, place = list[bytes](), 0
    while place < len(data):
        end = place + 4 + int.from_bytes(data[place : place + 4], "big")
        if end > len(data) or place + 4 > len(data):
            raise ValueError("its parts are cut off")
        parts.append(data[place + 4 : end])
        place = end
    return parts


# Stages.


def dispatch(
    workload: Workload, job: JobSpec, ctx: JobContext, stages: Sequence[Callable[[JobSpec, JobContext], JobResult]]
) -> JobResult:
    """Run the one of *stages* (functions named ``play`` or ``_play``, …) that *job* requests.  Raises Refused."""
    if all(spec.name != job.variant for spec in workload.variants()):
        raise Refused(f"{workload.name} does not play {job.variant!r:.80}")
    functions = {stage.__name__.removeprefix("_"): stage for stage in stages}
    if job.stage not in functions:
        raise Refused(f"{workload.name} has no stage {job.stage!r:.80}")
    return functions[job.stage](job, ctx)


def steps(
    job: JobSpec,
    ctx: JobContext,
    total: int,
    state: list[bytes] | None = None,
    *,
    metrics: Mapping[str, float] = {},
    beats: int = _BEATS,
    version: str = "",
) -> Iterator[int]:
    """Yield the numbers of *total* steps, with heartbeats (and *metrics*) after them; a stop request ends it early.

    The first step is always done.  *state* is what the steps have made: it is checkpointed, and a later attempt gets it
    back in the same list, with only the steps that are left.  If a step depends on nothing but its number and
    *state*, the job ends with the same bytes as without an interruption.
    """
    inputs = {role: tuple(blobs) for role, blobs in job.inputs.items()}
    identity = repr((version, job.seed, sorted(inputs.items()), sorted(job.params.items()), total))
    form = hashlib.sha256(identity.encode(errors="backslashreplace")).hexdigest()
    kind, done = f"checkpoint of {job.stage}", 0
    if state is not None and (checkpoint := ctx.resume()):
        try:
            file = unseal(checkpoint, kind, job.variant, form=form)
            done, state[:] = int(file.meta["done"]), split(file.payload)
        except ValueError:
            pass  # damaged, or of another job: its steps are done again
    for step in range(done, total):
        yield step
        if _is_part(step + 1, total, beats):
            ctx.heartbeat((step + 1) / total, **metrics)
        should_stop = ctx.should_stop()
        if state is not None and (should_stop or _is_part(step + 1, total, min(beats, _CHECKPOINTS))):
            ctx.checkpoint(seal(kind, job.variant, {"done": step + 1}, join(state), form=form))
        if should_stop:
            return


def _is_part(done: int, total: int, parts: int) -> bool:
    return parts * done // total > parts * (done - 1) // total


def export_batches(
    job: JobSpec, ctx: JobContext, read: Callable[[str], T], write: Callable[[Sequence[T]], JobResult]
) -> JobResult:
    """What *write* makes of the batches that *read* reads; others are listed as refused.  Stopped early: nothing.

    *read* gets a blob and raises Refused.  Raises the first refusal if no batch is left.
    """
    batches = tuple(dict.fromkeys(job.inputs.get("batches", ())))
    good, bad = list[T](), dict[str, Refused]()
    for number in steps(job, ctx, len(batches)):
        try:
            good.append(read(batches[number]))
        except Refused as refused:
            bad[batches[number]] = refused
    if len(good) + len(bad) < len(batches):
        return JobResult(partial=True)
    if not good:
        raise next(iter(bad.values()), Refused("there are no batches, so there are no samples"))
    return replace(write(good), refused=tuple(bad))


# Blocks.


def openings(start: B, plies: int, seed: int) -> Iterator[B]:
    """Numbered openings of *plies* random actions, without end: the same for the same *seed*, and no two alike.

    One that came before or is over is drawn again, with more plies after a while; a small game may run out of them.
    """
    positions = set[B]()
    for number in count():
        for attempt in range(_DRAWS * _DRAWS):
            board, random = start, random_of("opening", seed, number, attempt)
            for _ in range(plies + attempt // _DRAWS):
                if not board.is_over:
                    board = board.play(random.choice(board.legal()))
            if not board.is_over and board not in positions:
                break
        positions.add(board)
        yield start if board.is_over else board


def shares(scores: Sequence[float]) -> list[float]:
    """Each seat's share of first place: 1 for the most points, divided among those that have them."""
    best = [score == max(scores) for score in scores]
    return [is_best / sum(best) for is_best in best]


def _rank(scores: Sequence[float], seat: int) -> float:
    """The share of opponents with fewer points than *seat*; equal points count half."""
    ahead = sum((scores[seat] > score) + (scores[seat] == score) / 2 for score in scores) - 0.5
    return ahead / (len(scores) - 1)


def play_blocks(
    job: JobSpec, ctx: JobContext, start: B, spec: VariantSpec, move: Callable[[str, B, Random], int]
) -> list[Block]:
    """The blocks that *job* requests, or the first of them if it should stop: each opening is played from every seat.

    *move* chooses for the role ``candidate``, which has one seat, or ``champion``, which has all others.  Its random
    numbers depend on the seed, the block and the ply, not on the role, so two players that change places mirror.
    """
    first, total = int_param(job, "first", None, 0, COUNT_MAX), int_param(job, "count", None, 1, COUNT_MAX)
    plies = int_param(job, "opening_plies", spec.opening_plies, 0, _PLIES_MAX)
    blocks, numbered = list[Block](), islice(openings(start, plies, job.seed), first, None)
    for step in steps(job, ctx, total):
        opening, results = next(numbered), list[tuple[float, float]]()
        for seat in range(spec.players):
            board, ply = opening, 0
            while not board.is_over:
                role = "candidate" if board.seat == seat else "champion"
                board = play_legal(board, move(role, board, random_of("match", job.seed, first + step, ply)), ply)
                ply += 1
            results.append((shares(board.scores())[seat], _rank(board.scores(), seat)))
        scores, ranks = zip(*results, strict=True)
        blocks.append(Block(first + step, scores, ranks))
    return blocks


def play_legal(board: B, action: int, ply: int) -> B:
    """The next position.  Raises RuntimeError for an illegal *action* or a game without end: a defect of the game."""
    if action not in board.legal():
        raise RuntimeError(f"a player chose the illegal action {action!r:.40} at ply {ply}")
    if ply >= _PLIES_MAX:
        raise RuntimeError(f"a game has not ended after {_PLIES_MAX} plies")
    return board.play(operator.index(action))  # numpy's numbers overflow in a bit board
