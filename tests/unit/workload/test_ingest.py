"""Ingest: games from elsewhere become batches, each once, and what does not replay is refused."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ringrift.workload.api import Artifact, JobResult, JobSpec, Refused, Scalar
from ringrift.workload.fake import Fake, _Rules
from ringrift.workload.ingest import IngestLimits, ingest_games
from ringrift.workload.scratch import Scratch

V = "hex8_2p"
Game = dict[str, Any]


def game(number: int) -> Game:
    """A game of the fake that replays: the third move repeats the second, so seat 0 has won."""
    return {"variant": V, "moves": [number, 60, 60], "result": [1, 0]}


UNENDED: Game = {"variant": V, "moves": [1, 2], "result": [1, 0]}
BAD_RESULT: Game = game(1) | {"result": [0, 1]}


def put(folder: Path, games: Sequence[object]) -> str:
    """The blob of a file with *games*."""
    return Scratch(folder).publish("report", "\n".join(map(json.dumps, games)).encode(), {}).blob


def run(folder: Path, games: Sequence[object], history: str = "", **params: Scalar) -> JobResult:
    """Ingest a file with *games*."""
    inputs = {"file": (put(folder, games),), "history": (history,) if history else ()}
    return Fake().run(JobSpec("j", "ingest", V, 0, inputs, params), Scratch(folder))


def parts(result: JobResult) -> tuple[list[Artifact], Artifact]:
    """The batches and the report of *result*."""
    *batches, report = result.outputs
    assert {batch.kind for batch in batches} <= {"games"}
    assert report.kind == "report"
    return batches, report


def test_games_become_batches_that_export_reads(tmp_path: Path) -> None:
    """Their number is counted, and the report says so."""
    batches, report = parts(run(tmp_path, [game(number) for number in range(50)]))

    assert [batch.meta["games"] for batch in batches] == [50]
    assert report.meta["games"] == 50
    export = JobSpec("e", "export", V, 0, {"batches": (batches[0].blob,)})
    assert Fake().run(export, Scratch(tmp_path)).outputs[0].meta["games"] == 50


def test_a_game_that_does_not_replay_is_refused_and_named(tmp_path: Path) -> None:
    """The others count; rows of other variants are counted apart."""
    rows = [game(1), UNENDED, BAD_RESULT | {"moves": [7, 60, 60]}, game(2) | {"variant": "hex8_3p"}, "text", game(3)]

    batches, report = parts(run(tmp_path, rows))

    assert [batch.meta["games"] for batch in batches] == [2]
    counts = {name: report.meta[name] for name in ("games", "repeated", "refused", "other")}
    assert counts == {"games": 2, "repeated": 0, "refused": 3, "other": 1}
    assert str(report.meta["errors"]).splitlines() == [
        "row 5: it is no JSON object",
        "row 2: it has no end",
        "row 3: it has another result than its last position",
    ]


def test_a_game_counts_once_in_one_file_and_over_several(tmp_path: Path) -> None:
    """A file that has grown brings only what is new, and the same file brings nothing."""
    first = run(tmp_path, [game(1), game(2), game(1)])
    _, report = parts(first)
    grown = run(tmp_path, [game(3), game(2), game(1)], report.blob)
    batches, second = parts(grown)
    same = run(tmp_path, [game(3), game(2), game(1)], second.blob)

    assert (report.meta["games"], report.meta["repeated"]) == (2, 1)
    assert [batch.meta["games"] for batch in batches] == [1]
    assert [output.meta["repeated"] for output in same.outputs] == [3], "one output, the list"
    assert parts(same)[1].blob == second.blob


def test_what_was_refused_may_come_again(tmp_path: Path) -> None:
    """Only what counts is in the list: a game that is mended counts then."""
    _, report = parts(run(tmp_path, [game(1), game(2) | {"result": [0, 1]}]))

    assert parts(run(tmp_path, [game(2)], report.blob))[1].meta["games"] == 1


def limited(folder: Path, games: Sequence[object], **limits: int) -> JobResult:
    """Ingest a file with *games* under other limits."""
    job = JobSpec("j", "ingest", V, 0, {"file": (put(folder, games),)})
    return ingest_games(job, Scratch(folder), _Rules(V), 2, IngestLimits(**limits))


def test_the_list_is_bounded_and_keeps_the_newest(tmp_path: Path) -> None:
    """The oldest games are forgotten first."""
    _, report = parts(limited(tmp_path, [game(1), game(2), game(3)], history_max=2))

    assert parts(run(tmp_path, [game(2), game(3)], report.blob))[1].meta["repeated"] == 2
    assert parts(run(tmp_path, [game(1)], report.blob))[1].meta["games"] == 1


def test_pending_games_are_not_replayed(tmp_path: Path) -> None:
    """They become batches as they are, and the report says that they were not replayed."""
    _, replayed = parts(run(tmp_path, [game(1), UNENDED]))
    batches, pending = parts(run(tmp_path, [game(1), UNENDED], replay=False))

    assert (replayed.meta["replayed"], replayed.meta["games"]) == (True, 1)
    assert (pending.meta["replayed"], batches[0].meta["games"]) == (False, 2)


@pytest.mark.parametrize(
    ("games", "reason"),
    [
        ([UNENDED, BAD_RESULT], "none of its 2 games of hex8_2p replays; row 1: it has no end"),
        ([game(1) | {"variant": "hex8_3p"}], "it has no games of hex8_2p; it has games of hex8_3p"),
        ([3], "it has neither lines of JSON nor a database of games"),
    ],
    ids=["bad", "other", "text"],
)
def test_a_file_without_a_game_that_counts_is_refused(tmp_path: Path, games: list[object], reason: str) -> None:
    """The refusal names the file and says why."""
    with pytest.raises(Refused) as refused:
        run(tmp_path, games)

    assert reason in refused.value.reason
    assert refused.value.blob == put(tmp_path, games)


def test_a_damaged_list_is_refused(tmp_path: Path) -> None:
    """Without it games could count twice."""
    _, report = parts(run(tmp_path, [game(1)]))
    data = bytearray(Scratch(tmp_path).open_input(report.blob).read_bytes())
    data[-40] ^= 1
    bad = Scratch(tmp_path).publish("report", bytes(data), {}).blob

    with pytest.raises(Refused) as refused:
        run(tmp_path, [game(2)], bad)
    assert refused.value.blob == bad


def test_a_large_file_has_few_batches_and_a_limit(tmp_path: Path) -> None:
    """A result has at most so many files; a file with more rows than that is to be split."""
    games = [game(number) for number in range(50)]
    batches, _ = parts(limited(tmp_path, games, batches_max=4, games_per_batch=5))

    assert [batch.meta["games"] for batch in batches] == [13, 13, 13, 11]
    with pytest.raises(Refused, match="it has more than 49 rows; split it"):
        limited(tmp_path, games, rows_max=49)


def test_a_stopped_job_leaves_nothing(tmp_path: Path) -> None:
    """A part of a file is not counted."""
    inputs = {"file": (put(tmp_path, [game(1)]),)}
    result = Fake().run(JobSpec("j", "ingest", V, 0, inputs), Scratch(tmp_path).stop_after(0))

    assert (result.partial, tuple(result.outputs)) == (True, ())
