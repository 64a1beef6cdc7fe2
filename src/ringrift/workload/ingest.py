"""Ingest: the stage that makes batches of a file of games from elsewhere, but for the rules, which the game brings.

Each game is replayed; one that does not replay is refused and named.  A game that was counted before is left out,
wherever it comes from: games are told apart by their moves, and the list of those that were counted goes from one job
to the next.  So a database that grows can be imported again and again, and every game counts once.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from ringrift.workload.api import Artifact, JobContext, JobResult, JobSpec, Refused
from ringrift.workload.game_files import GameRow, read_games
from ringrift.workload.kit import only_input, read_input, seal, unseal

_DIGEST_BYTES = 16
_FORM = "counted-games 1"
_ERRORS_LISTED, _ERROR_CHARACTERS_MAX, _VARIANTS_LISTED = 5, 600, 5


class IngestLimits(NamedTuple):
    """How much one file may hold, and how it is divided."""

    rows_max: int = 400_000  #: Rows of one file, those of other variants and those that were counted before included.
    batches_max: int = 60  #: Of one file: a result may have 64 outputs.
    games_per_batch: int = 512  #: In a file that is not large.
    history_max: int = 1_000_000  #: Games of a variant that are remembered as counted, the newest.


_LIMITS = IngestLimits()


class ForeignGame(NamedTuple):
    """A game of the file with its actions, which are not replayed yet."""

    number: int
    actions: tuple[int, ...]
    result: tuple[float, ...]
    digest: bytes  #: The same for the same moves of the same variant.


class Rules(Protocol):
    """The part of ingest that only the game can do, for one variant."""

    games_per_batch_max: int  #: As many as a batch can hold.

    def action(self, move: int | str) -> int:
        """The number of the action that *move* names.  Raises ValueError."""

    def replay(self, games: Sequence[ForeignGame]) -> Sequence[str]:
        """What is wrong with each of *games*, by the rules; empty where nothing is."""

    def pack(self, games: Sequence[ForeignGame]) -> bytes:
        """A batch of *games*, as export reads it; the same games give the same bytes."""


class _Count:
    """What has become of the rows of a file."""

    def __init__(self) -> None:
        self.repeated, self.refused, self.errors, self.others = 0, 0, list[str](), Counter[str]()

    def refuse(self, number: int, error: str) -> None:
        self.refused += 1
        if len(self.errors) < _ERRORS_LISTED:
            self.errors.append(f"row {number}: {error}")

    def text(self) -> str:
        return "\n".join(self.errors)[:_ERROR_CHARACTERS_MAX]


def ingest_games(
    job: JobSpec, ctx: JobContext, rules: Rules, players: int, limits: IngestLimits = _LIMITS
) -> JobResult:
    """Make batches of the file of *job*, and the list of all games that were counted; stopped early: nothing.

    With the param ``replay`` = false the games are only read: export replays them, and refuses a whole batch for one
    that is bad.  Raises Refused if the file is damaged, or has no game of the variant that replays.
    """
    file, is_replayed, count = only_input(job, "file"), job.params.get("replay", True) is not False, _Count()
    history = _read_history(job, ctx)
    try:
        rows = _read_rows(ctx.open_input(file), lambda: ctx.heartbeat(0.0), limits.rows_max)
        games = list(_new_games(job.variant, rows, rules, players, set(history), count))
        if len(games) > (most := limits.batches_max * rules.games_per_batch_max):
            raise ValueError(f"it has {len(games)} new games of {job.variant}; one file may have {most}: split it")
    except ValueError as error:
        raise Refused(f"file {file[:12]} is refused: {error}", file) from error
    size = min(rules.games_per_batch_max, max(limits.games_per_batch, -(-len(games) // limits.batches_max)))
    good, batch, outputs = list[ForeignGame](), list[ForeignGame](), list[Artifact]()
    for first in range(0, len(games), size):
        if ctx.should_stop():
            return JobResult(partial=True)
        part = games[first : first + size]
        for game, defect in zip(part, rules.replay(part) if is_replayed else [""] * len(part), strict=True):
            if defect:
                count.refuse(game.number, defect)
            else:
                batch.append(game)
        if batch and (len(batch) >= size // 2 or first + size >= len(games)):  # what is refused leaves gaps
            outputs.append(ctx.publish("games", rules.pack(batch), {"games": len(batch)}))
            good.extend(batch)
            batch.clear()
        ctx.heartbeat(min(1.0, (first + size) / len(games)))
    if not good and not count.repeated:
        raise Refused(f"file {file[:12]} is refused: {_nothing(job.variant, count)}", file)
    facts = {"games": len(good), "repeated": count.repeated, "refused": count.refused, "other": count.others.total()}
    listed = b"".join([*history, *(game.digest for game in good)][-limits.history_max :])
    report = seal("report", job.variant, {"games": len(listed) // _DIGEST_BYTES}, listed, form=_FORM)
    outputs.append(ctx.publish("report", report, {**facts, "errors": count.text(), "replayed": is_replayed}))
    return JobResult(tuple(outputs), {name: float(number) for name, number in facts.items()})


def _nothing(variant: str, count: _Count) -> str:
    if count.refused:
        return f"none of its {count.refused} games of {variant} replays; {count.text()}"
    names = ", ".join(f"{name:.40}" for name, _ in count.others.most_common(_VARIANTS_LISTED))
    return f"it has no games of {variant}" + (f"; it has games of {names}" if names else "")


def _read_history(job: JobSpec, ctx: JobContext) -> dict[bytes, None]:
    """The digests of the games that were counted before, oldest first.  Raises Refused."""

    def decode(data: bytes) -> dict[bytes, None]:
        payload = unseal(data, "report", job.variant, form=_FORM).payload
        if len(payload) % _DIGEST_BYTES:
            raise ValueError("it is cut off")
        return dict.fromkeys(payload[at : at + _DIGEST_BYTES] for at in range(0, len(payload), _DIGEST_BYTES))

    return read_input(ctx, "history", only_input(job, "history"), decode) if job.inputs.get("history") else {}


def _read_rows(path: Path, on_progress: Callable[[], object], rows_max: int) -> Iterator[GameRow]:
    """The rows of the file.  Raises ValueError if it is damaged or has more."""
    for number, row in enumerate(read_games(path, on_progress), 1):
        if number > rows_max:
            raise ValueError(f"it has more than {rows_max} rows; split it")
        yield row


def _new_games(
    variant: str, rows: Iterable[GameRow], rules: Rules, players: int, history: set[bytes], count: _Count
) -> Iterator[ForeignGame]:
    """The games of *variant* that were not counted before, each once.  Raises ValueError."""
    for row in rows:
        if row.error:
            count.refuse(row.number, row.error)
        elif row.variant != variant:
            count.others[row.variant] += 1
        else:
            try:
                game = _read_game(row, rules, players)
            except ValueError as error:
                count.refuse(row.number, str(error))
                continue
            if game.digest in history:
                count.repeated += 1
            else:
                history.add(game.digest)
                yield game


def _read_game(row: GameRow, rules: Rules, players: int) -> ForeignGame:
    if len(row.result) != players:
        raise ValueError(f"its result has {len(row.result)} seats, not {players}")
    actions = tuple(map(rules.action, row.moves))
    text = f"{row.variant}\0{','.join(map(str, actions))}".encode()
    return ForeignGame(row.number, actions, row.result, hashlib.blake2b(text, digest_size=_DIGEST_BYTES).digest())
