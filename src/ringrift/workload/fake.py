"""Fake: microsecond jobs with a known gain of strength and faults on request, for tests of the loop itself.

Blobs are canonical JSON with checksums, so that one flipped bit anywhere is detected.  A trained model is N(40, 30) Elo
stronger than its parent, drawn from the seed and the inputs: about one candidate in eleven is weaker.

Faults are requested in a job's params:

fake_crash         "first" | "always"   the process exits with 13 halfway through the job
fake_hang          "first" | "always"   no heartbeat from halfway on, until killed
fake_corrupt       "first" | "always"   play publishes a batch whose checksums are wrong
fake_nan           "first" | "always"   train publishes a model whose strength is NaN; generation 0 is not trained
fake_slow_seconds  seconds              the job takes that much longer, with heartbeats, and can be stopped meanwhile
fake_every         n                    faults only where seed % n == 0
fake_stage         stage                faults only in that stage

"first" means: on the first attempt only.
"""

import hashlib
import json
import math
import os
import time
import zlib
from collections.abc import Iterator, Sequence
from random import Random
from types import UnionType
from typing import Any, NamedTuple

from ringrift.workload.api import STAGES, Block, JobContext, JobResult, JobSpec, Refused, VariantSpec

SAMPLES_PER_GAME = 30
_GAIN_MEAN, _GAIN_DEVIATION = 40.0, 30.0  # Elo per training
_COUNT_MAX = 1_000_000  # games of one play, blocks of one match
_SLOW_SECONDS_MAX = 86_400.0

_BOARDS = {"square8": 64, "square19": 361, "hex8": 61, "hexagonal": 469}  # with their cells
_BLOB_BYTES_MAX = 16 * 1024 * 1024  # _COUNT_MAX checksums of ten digits fit
_SLEEP_SECONDS = 0.05
_DRAW_SHARE = 0.1  # of the weaker side's chance, in two-player games
_BASELINES = {"random": -400.0, "greedy": -200.0}  # players that never train, with their strength


class _Model(NamedTuple):
    blob: str
    generation: int
    strength: float


class Fake:
    """Plays nothing, quickly and reproducibly."""

    name = "fake"
    version = "1"

    def variants(self) -> Sequence[VariantSpec]:
        boards = [(board, players, cells) for board, cells in _BOARDS.items() for players in (2, 3, 4)]
        return tuple(VariantSpec(f"{board}_{players}p", players, cells, 1e-6) for board, players, cells in boards)

    def run(self, job: JobSpec, ctx: JobContext) -> JobResult:
        if all(spec.name != job.variant for spec in self.variants()):
            raise Refused(f"fake does not play {job.variant!r:.80}")
        functions = (_play, _export, _train, _match, _verify, _tune, _import)
        stages = {function.__name__.removeprefix("_"): function for function in functions}
        if job.stage not in stages:
            raise Refused(f"fake has no stage {job.stage!r:.80}")
        return stages[job.stage](job, ctx)


def _play(job: JobSpec, ctx: JobContext) -> JobResult:
    model, total = _model(_only(job, "model"), job, ctx).blob, _count(job, "games")
    checkpoint = ctx.resume() or b"0"
    games = first = min(int(checkpoint), total) if checkpoint.isdigit() else 0
    for games in _steps(job, ctx, first, total):
        if _is_quarter(games, total):
            ctx.checkpoint(str(games).encode())
    checksums = _checksums(job.variant, model, job.seed, games)
    if _has_fault(job, "fake_corrupt"):
        checksums = [checksum ^ 1 for checksum in checksums]
    body = {"checksums": checksums, "games": games, "model": model, "seed": job.seed, "variant": job.variant}
    batch = ctx.publish("games", _bytes(body), {"games": games})
    return JobResult(outputs=(batch,), metrics={"games": games}, partial=games < total)


def _export(job: JobSpec, ctx: JobContext) -> JobResult:
    good, bad = dict[str, int](), dict[str, Refused]()
    for batch in job.inputs.get("batches", ()):
        try:
            good[batch] = _games(batch, job, ctx)
        except Refused as refused:
            bad[batch] = refused
    games = sum(good.values())
    if not games:
        raise next(iter(bad.values()), Refused("the batches hold no samples"))
    if not _pause(job, ctx):
        return JobResult(partial=True)
    samples = games * SAMPLES_PER_GAME
    body = {"batches": tuple(good), "games": games, "samples": samples, "variant": job.variant}
    dataset = ctx.publish("samples", _sealed(body), {"samples": samples, "games": games})
    return JobResult(outputs=(dataset,), metrics={"samples": samples}, refused=tuple(bad))


def _train(job: JobSpec, ctx: JobContext) -> JobResult:
    samples, parents = job.inputs.get("samples", ()), job.inputs.get("parent", ())
    generation, strength, parent = 0, 0.0, None
    if samples:
        for blob in samples:
            _unsealed(blob, job, ctx, batches=list, games=int, samples=int)
        if parents:
            ancestor = _model(_only(job, "parent"), job, ctx)
            generation, strength, parent = ancestor.generation, ancestor.strength, ancestor.blob
        gain = Random(_seed("train", job.variant, job.seed, *samples, *parents)).gauss(_GAIN_MEAN, _GAIN_DEVIATION)
        # Rounded, so that the last bit of a machine's logarithm does not change the hash.
        generation, strength = generation + 1, round(strength + gain, 3)
        if _has_fault(job, "fake_nan"):
            strength = math.nan
    if not _pause(job, ctx):
        return JobResult(partial=True)
    body = {"generation": generation, "parent": parent, "strength": strength, "variant": job.variant}
    model = ctx.publish("model", _sealed(body), {"generation": generation})
    return JobResult(outputs=(model,), metrics={"generation": generation})


def _match(job: JobSpec, ctx: JobContext) -> JobResult:
    candidate, champion = (_player(role, job, ctx) for role in ("candidate", "champion"))
    players = int(job.variant[-2])
    first, total = _count(job, "first", least=0), _count(job, "count")
    blocks: list[Block] = []
    for done in _steps(job, ctx, 0, total):
        opening = f"{job.variant}#{first + done - 1}"
        games = [_game(opening, players, seat, candidate, champion) for seat in range(players)]
        scores, ranks = zip(*games, strict=True)
        blocks.append(Block(number=first + done - 1, scores=scores, ranks=ranks))
    partial = len(blocks) < total
    return JobResult(metrics={"blocks": len(blocks)}, blocks=tuple(blocks), partial=partial, settings="fake")


def _player(role: str, job: JobSpec, ctx: JobContext) -> _Model:
    """The player in *role*: a model, or a player that never trains if a param names it in place of an input."""
    name = job.params.get(role)
    if role not in job.inputs and isinstance(name, str) and name in _BASELINES:
        return _Model(name, 0, _BASELINES[name])
    return _model(_only(job, role), job, ctx)


def _verify(job: JobSpec, ctx: JobContext) -> JobResult:
    _model(_only(job, "model"), job, ctx)
    _pause(job, ctx)  # a stop request only shortens the pause: the check itself is done
    return JobResult()


def _import(job: JobSpec, ctx: JobContext) -> JobResult:
    """Publish the same bytes again if they are a model of the fake."""
    model = _model(_only(job, "file"), job, ctx)
    if not _pause(job, ctx):
        return JobResult(partial=True)
    with ctx.open_input(model.blob).open("rb") as file:
        copy = ctx.publish("model", file.read(_BLOB_BYTES_MAX), {"generation": model.generation})
    return JobResult(outputs=(copy,))


def _tune(job: JobSpec, ctx: JobContext) -> JobResult:
    """A bowl: fitness grows as every number comes nearer to 1."""
    try:
        vector = [float(number) for number in str(job.params.get("vector", "")).split(",")]
    except ValueError as error:
        raise Refused("tune needs a vector: numbers separated by commas") from error
    _pause(job, ctx)
    return JobResult(metrics={"fitness": -sum((number - 1.0) ** 2 for number in vector)})


def _game(opening: str, players: int, seat: int, model: _Model, others: _Model) -> tuple[float, float]:
    """The result of *model* in *seat* against copies of *others*: its share of first place, and of those it beats.

    A two-player game is drawn from seat 0, whichever model is the candidate: *model* in seat 1 gets what *others* in
    seat 0 leave.  So A's score from seat s and B's from seat 1-s add up to exactly 1.
    """
    if players == 2 and seat == 1:
        score = 1.0 - _game(opening, players, 0, others, model)[0]
        return score, score
    # The bounds keep the power finite; beyond 4,000 Elo nothing changes any more.
    strength = 10.0 ** (min(4000.0, max(-4000.0, model.strength - others.strength)) / 400.0)
    rng = Random(_seed("match", opening, model.blob, others.blob, seat))
    if players == 2:
        chance = strength / (strength + 1.0)
        draw = _DRAW_SHARE * min(chance, 1.0 - chance)
        number = rng.random()
        score = 1.0 if number < chance - draw / 2 else 0.5 if number < chance + draw / 2 else 0.0
        return score, score
    # Plackett and Luce: each place goes to one of the players left, in proportion to its strength.
    place = 0
    while place < players - 1 and rng.random() >= strength / (strength + players - 1 - place):
        place += 1
    return float(place == 0), 1.0 - place / (players - 1)


def _seed(*parts: object) -> int:
    return int.from_bytes(hashlib.sha256("\x1f".join(map(str, parts)).encode()).digest()[:8], "big")


def _count(job: JobSpec, name: str, least: int = 1) -> int:
    value = job.params.get(name)
    if type(value) is not int or not least <= value <= _COUNT_MAX:
        raise Refused(f"{job.stage} needs {name} from {least} to {_COUNT_MAX}, not {value!r:.80}")
    return value


def _only(job: JobSpec, role: str) -> str:
    blobs = job.inputs.get(role, ())
    if len(blobs) != 1:
        raise Refused(f"{job.stage} needs exactly one {role}, not {len(blobs)}")
    return blobs[0]


# Blobs: a file is accepted only if it has the very bytes that we would write.


def _bytes(body: dict[str, Any]) -> bytes:
    return json.dumps(body, sort_keys=True, separators=(",", ":")).encode()


def _sealed(body: dict[str, Any]) -> bytes:
    return _bytes({**body, "checksum": hashlib.sha256(_bytes(body)).hexdigest()})


def _checksums(variant: str, model: str, seed: int, games: int) -> list[int]:
    """One running checksum per game; each depends on the games before it and on the batch's own fields."""
    last = zlib.crc32(f"{variant}/{model}/{seed}".encode(errors="backslashreplace"))
    return [last := zlib.crc32(b"game", last) for _ in range(games)]


def _read(blob: str, job: JobSpec, ctx: JobContext, **kinds: type | UnionType) -> dict[str, Any]:
    """The fields of *blob*.  Raises Refused unless they are those of *kinds*, canonical, and of the job's variant."""
    with ctx.open_input(blob).open("rb") as file:
        data = file.read(_BLOB_BYTES_MAX)
    try:
        body = json.loads(data)
        canonical = _bytes(body) == data
    except (ValueError, RecursionError) as error:
        raise Refused(f"blob {blob[:12]} does not decode", blob) from error
    if not canonical or not isinstance(body, dict) or set(body) != {"variant", *kinds}:
        raise Refused(f"blob {blob[:12]} is not canonical JSON of its fields", blob)
    if any(isinstance(body[name], bool) or not isinstance(body[name], kind) for name, kind in kinds.items()):
        raise Refused(f"blob {blob[:12]} has a field of the wrong type", blob)
    if body["variant"] != job.variant:
        raise Refused(f"blob {blob[:12]} is of {body['variant']!r:.40}, not of {job.variant}", blob)
    return body


def _unsealed(blob: str, job: JobSpec, ctx: JobContext, **kinds: type | UnionType) -> dict[str, Any]:
    body = _read(blob, job, ctx, checksum=str, **kinds)
    if _sealed({name: value for name, value in body.items() if name != "checksum"}) != _bytes(body):
        raise Refused(f"blob {blob[:12]} has a wrong checksum", blob)
    return body


def _model(blob: str, job: JobSpec, ctx: JobContext) -> _Model:
    body = _unsealed(blob, job, ctx, generation=int, parent=str | None, strength=float)
    if not math.isfinite(body["strength"]):
        raise Refused(f"model {blob[:12]} has a strength of {body['strength']}", blob)
    return _Model(blob, body["generation"], body["strength"])


def _games(blob: str, job: JobSpec, ctx: JobContext) -> int:
    body = _read(blob, job, ctx, checksums=list, games=int, model=str, seed=int)
    games = len(body["checksums"])
    if games != body["games"] or body["checksums"] != _checksums(job.variant, body["model"], body["seed"], games):
        raise Refused(f"batch {blob[:12]} has wrong checksums", blob)
    return games


def _is_target(job: JobSpec) -> bool:
    every, stage = job.params.get("fake_every", 1), job.params.get("fake_stage")
    if type(every) is not int or every < 1 or stage not in (None, *STAGES):
        raise Refused(f"bad fault params: fake_every {every!r:.80}, fake_stage {stage!r:.80}")
    return job.seed % every == 0 and stage in (None, job.stage)


def _has_fault(job: JobSpec, param: str) -> bool:
    when = job.params.get(param)
    if when not in (None, "first", "always"):
        raise Refused(f'{param} is "first" or "always", not {when!r:.80}')
    return _is_target(job) and (when == "always" or (when == "first" and job.attempt == 1))


def _crash_or_hang(job: JobSpec) -> None:
    if _has_fault(job, "fake_crash"):
        os._exit(13)
    while _has_fault(job, "fake_hang"):  # without end on purpose: the runner must notice and kill it
        time.sleep(_SLEEP_SECONDS)


def _slow_seconds(job: JobSpec) -> float:
    seconds = job.params.get("fake_slow_seconds", 0.0)
    if isinstance(seconds, str | bool | None) or not 0 <= seconds <= _SLOW_SECONDS_MAX:
        raise Refused(f"fake_slow_seconds is from 0 to {_SLOW_SECONDS_MAX:g}, not {seconds!r:.80}")
    return float(seconds) if _is_target(job) else 0.0


def _sleep(seconds: float, start: float, end: float, ctx: JobContext) -> bool:
    """Sleep *seconds* while heartbeats go from *start* to *end*.  False if the job should stop."""
    steps = math.ceil(seconds / _SLEEP_SECONDS)
    for step in range(steps):
        if ctx.should_stop():
            return False
        time.sleep(seconds / steps)
        ctx.heartbeat(start + (end - start) * (step + 1) / steps)
    return True


def _pause(job: JobSpec, ctx: JobContext) -> bool:
    """Faults and delay of a job that is one step.  False if the job should stop."""
    _crash_or_hang(job)
    if finished := _sleep(_slow_seconds(job), 0.0, 1.0, ctx):
        ctx.heartbeat(1.0)
    return finished


def _steps(job: JobSpec, ctx: JobContext, first: int, total: int) -> Iterator[int]:
    """Yield the number of steps done, from *first* + 1 to *total*; a stop request ends it after the next step."""
    delay, debt = _slow_seconds(job) / total, 0.0
    for step in range(first, total):
        if step == max(first, total // 2):
            _crash_or_hang(job)
        debt += delay
        if debt >= _SLEEP_SECONDS or step + 1 == total:
            _sleep(debt, step / total, (step + 1) / total, ctx)
            debt = 0.0
        yield step + 1
        if _is_quarter(step + 1, total):
            ctx.heartbeat((step + 1) / total)
        if ctx.should_stop():
            return


def _is_quarter(done: int, total: int) -> bool:
    return 4 * done // total > 4 * (done - 1) // total
