"""Fake: microsecond jobs with a known gain of strength and faults on request, for tests of the loop itself.

A trained model is N(40, 30) Elo stronger than its parent, drawn from the seed and the inputs: about one candidate in
eleven is weaker.

Faults are requested in a job's params:

fake_crash         "first" | "always"   the process exits with 13 halfway through the job
fake_hang          "first" | "always"   no heartbeat from halfway on, until killed
fake_corrupt       "first" | "always"   play publishes a batch whose checksum is wrong
fake_nan           "first" | "always"   train publishes a model whose strength is NaN; generation 0 is not trained
fake_slow_seconds  seconds              the job takes that much longer, with heartbeats, and can be stopped meanwhile
fake_every         n                    faults only where seed % n == 0
fake_stage         stage                faults only in that stage

"first" means: on the first attempt only.
"""

import math
import os
import time
from collections.abc import Iterator, Sequence
from types import UnionType
from typing import NamedTuple

from ringrift.workload import kit
from ringrift.workload.api import STAGES, Block, JobContext, JobResult, JobSpec, Refused, VariantSpec
from ringrift.workload.game_files import FORMATS
from ringrift.workload.ingest import ForeignGame, ingest_games
from ringrift.workload.kit import int_param, only_input

SAMPLES_PER_GAME = 30
_GAIN_MEAN, _GAIN_DEVIATION = 40.0, 30.0  # Elo per training
_SLOW_SECONDS_MAX = 86_400.0

_BOARDS = {"square8": 64, "square19": 361, "hex8": 61, "hexagonal": 469}  # with their cells
_GAME_BYTES = 10  # of a batch, for each game
_BEATS = 4  # of a job: it takes microseconds
FORM = "fake 2"
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
    game_files = FORMATS

    def variants(self) -> Sequence[VariantSpec]:
        boards = [(f"{board}_{players}p", players, cells) for board, cells in _BOARDS.items() for players in (2, 3, 4)]
        return tuple(VariantSpec(*board, 1e-6, baselines=tuple(_BASELINES)) for board in boards)

    def run(self, job: JobSpec, ctx: JobContext) -> JobResult:
        return kit.dispatch(self, job, ctx, (_play, _export, _train, _match, _verify, _tune, _import, _ingest))


def _play(job: JobSpec, ctx: JobContext) -> JobResult:
    model, total = _model(job, ctx, "model").blob, int_param(job, "games", None, 1, kit.COUNT_MAX)
    games = total  # a checkpoint may leave no steps
    for step in _steps(job, ctx, total, []):
        games = step + 1
    body = {"games": games, "model": model, "seed": job.seed}
    data = kit.seal("games", job.variant, body, bytes(games * _GAME_BYTES), form=FORM)
    if _has_fault(job, "fake_corrupt"):
        data = data[:-1] + bytes([data[-1] ^ 1])
    return JobResult((ctx.publish("games", data, {"games": games}),), {"games": games}, partial=games < total)


def _export(job: JobSpec, ctx: JobContext) -> JobResult:
    def write(batches: Sequence[tuple[str, int]]) -> JobResult:
        if not _pause(job, ctx):
            return JobResult(partial=True)
        games = sum(number for _, number in batches)
        counts = {"games": games, "samples": games * SAMPLES_PER_GAME}
        body = {"batches": [blob for blob, _ in batches], **counts}
        data = kit.seal("samples", job.variant, body, form=FORM)
        return JobResult((ctx.publish("samples", data, counts),), {"samples": counts["samples"]})

    return kit.export_batches(job, ctx, lambda blob: (blob, _games(blob, job, ctx)), write)


def _train(job: JobSpec, ctx: JobContext) -> JobResult:
    samples, parents = job.inputs.get("samples", ()), job.inputs.get("parent", ())
    parent, generation, strength = None, 0, 0.0
    if samples:
        for blob in samples:
            _read(job, ctx, "samples", blob, batches=list, games=int, samples=int)
        if parents:
            parent, generation, strength = _model(job, ctx, "parent")
        gain = kit.random_of("train", job.variant, job.seed, *samples, *parents).gauss(_GAIN_MEAN, _GAIN_DEVIATION)
        # Rounded, so that the last bit of a machine's logarithm does not change the hash.
        generation, strength = generation + 1, round(strength + gain, 3)
        if _has_fault(job, "fake_nan"):
            strength = math.nan
    if not _pause(job, ctx):
        return JobResult(partial=True)
    body = {"generation": generation, "parent": parent, "strength": strength}
    data, meta = kit.seal("model", job.variant, body, form=FORM), {"generation": generation}
    return JobResult((ctx.publish("model", data, meta),), {"generation": generation})


def _match(job: JobSpec, ctx: JobContext) -> JobResult:
    candidate, champion = (_player(role, job, ctx) for role in ("candidate", "champion"))
    players, blocks = int(job.variant[-2]), list[Block]()
    first, total = (int_param(job, name, None, least, kit.COUNT_MAX) for name, least in (("first", 0), ("count", 1)))
    for number in (first + step for step in _steps(job, ctx, total)):
        games = [_game(f"{job.variant}#{number}", players, seat, candidate, champion) for seat in range(players)]
        scores, ranks = zip(*games, strict=True)
        blocks.append(Block(number, scores, ranks))
    return JobResult((), {"blocks": len(blocks)}, tuple(blocks), partial=len(blocks) < total, settings="fake")


def _player(role: str, job: JobSpec, ctx: JobContext) -> _Model:
    """The player in *role*: a model, or a player that never trains if a param names it in place of an input."""
    name = job.params.get(role)
    if role not in job.inputs and isinstance(name, str) and name in _BASELINES:
        return _Model(name, 0, _BASELINES[name])
    return _model(job, ctx, role)


def _verify(job: JobSpec, ctx: JobContext) -> JobResult:
    _model(job, ctx, "model")
    _pause(job, ctx)  # a stop request only shortens the pause: the check itself is done
    return JobResult()


def _import(job: JobSpec, ctx: JobContext) -> JobResult:
    """Publish the same bytes again if they are a model of the fake."""
    model = _model(job, ctx, "file")
    if not _pause(job, ctx):
        return JobResult(partial=True)
    data = kit.read_input(ctx, "file", model.blob, bytes)
    return JobResult((ctx.publish("model", data, {"generation": model.generation}),))


class _Rules:
    """A game of the fake has ended when a move repeats the one before; the seat that made it has won alone."""

    games_per_batch_max = kit.COUNT_MAX

    def __init__(self, variant: str) -> None:
        self._variant = variant

    def action(self, move: int | str) -> int:
        if not isinstance(move, int):
            raise ValueError(f"{move!r:.40} is no action")
        return move

    def replay(self, games: Sequence[ForeignGame]) -> list[str]:
        return [self._error(game.actions, game.result) for game in games]

    def _error(self, actions: Sequence[int], result: Sequence[float]) -> str:
        ends = [ply for ply in range(1, len(actions)) if actions[ply] == actions[ply - 1]]
        if ends != [len(actions) - 1]:
            return "it has no end" if not ends else "it has moves after its end"
        shares = [float(seat == ends[0] % len(result)) for seat in range(len(result))]
        return "" if shares == list(result) else "it has another result than its last position"

    def pack(self, games: Sequence[ForeignGame]) -> bytes:
        seed = int.from_bytes(games[0].digest[:7], "big")
        body = {"games": len(games), "model": "", "seed": seed}
        return kit.seal("games", self._variant, body, bytes(len(games) * _GAME_BYTES), form=FORM)


def _ingest(job: JobSpec, ctx: JobContext) -> JobResult:
    if not _pause(job, ctx):
        return JobResult(partial=True)
    return ingest_games(job, ctx, _Rules(job.variant), int(job.variant[-2]))


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
    rng = kit.random_of("match", opening, model.blob, others.blob, seat)
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


def _read(job: JobSpec, ctx: JobContext, kind: str, blob: str, **types: type | UnionType) -> kit.File:
    """The fields of *blob*, which are those of *types*, and its payload.  Raises Refused."""

    def decode(data: bytes) -> kit.File:
        file = kit.unseal(data, kind, job.variant, form=FORM)
        if {name: isinstance(file.meta[name], types.get(name, ())) for name in file.meta} != dict.fromkeys(types, True):
            raise ValueError("it has other fields")
        return file

    return kit.read_input(ctx, kind, blob, decode)


def _model(job: JobSpec, ctx: JobContext, role: str) -> _Model:
    blob = only_input(job, role)
    body, _ = _read(job, ctx, "model", blob, generation=int, parent=str | None, strength=float)
    if not math.isfinite(body["strength"]):
        raise Refused(f"model {blob[:12]} has a strength of {body['strength']}", blob)
    return _Model(blob, body["generation"], body["strength"])


def _games(blob: str, job: JobSpec, ctx: JobContext) -> int:
    body, payload = _read(job, ctx, "games", blob, games=int, model=str, seed=int)
    if body["games"] < 1 or payload != bytes(body["games"] * _GAME_BYTES):
        raise Refused(f"batch {blob[:12]} has another number of games", blob)
    return int(body["games"])


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


def _steps(job: JobSpec, ctx: JobContext, total: int, state: list[bytes] | None = None) -> Iterator[int]:
    """The steps of a job, with its faults halfway and its delay."""
    delay, debt, is_first = _slow_seconds(job) / total, 0.0, True
    for step in kit.steps(job, ctx, total, state, beats=_BEATS):
        if step >= total // 2 and is_first:
            _crash_or_hang(job)
            is_first = False
        debt += delay
        if debt >= _SLEEP_SECONDS or step + 1 == total:
            _sleep(debt, step / total, (step + 1) / total, ctx)
            debt = 0.0
        yield step
