"""Games of reversi from elsewhere: replayed by the rules, and good to train on."""

import json
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from ringrift.workload.api import JobResult, JobSpec, Refused, Scalar
from ringrift.workload.scratch import Scratch
from ringrift_reversi import records, samples, terminal
from ringrift_reversi.workload import Reversi

VARIANTS = ("square8_2p", "hex8_3p")


def game(seed: int, variant: str = "square8_2p", *, names: bool = False) -> dict[str, Any]:
    """A random game, as another program would write it."""
    random, board, moves = Random(seed), terminal.begin(variant), list[int | str]()
    while not board.is_over:
        action = random.choice(board.legal())
        moves.append(board.text(action).upper() if names else action)
        board = board.play(action)
    best = [score == max(board.scores()) for score in board.scores()]
    return {"variant": variant, "moves": moves, "result": [round(is_best / sum(best), 4) for is_best in best]}


def run(folder: Path, games: list[dict[str, Any]], variant: str = "square8_2p", **params: Scalar) -> JobResult:
    """Ingest a file with *games*."""
    data = "\n".join(map(json.dumps, games)).encode()
    file = Scratch(folder).publish("report", data, {}).blob
    return Reversi().run(JobSpec("j", "ingest", variant, 0, {"file": (file,)}, params), Scratch(folder))


@pytest.mark.parametrize("variant", VARIANTS)
def test_games_become_batches_and_samples(tmp_path: Path, variant: str) -> None:
    """Every position is a sample: its target is the move that was played, its value the result."""
    games = [game(seed, variant, names=bool(seed % 2)) for seed in range(12)]
    batch = run(tmp_path, games, variant).outputs[0]
    data = Scratch(tmp_path).open_input(batch.blob).read_bytes()
    loaded, meta = records.unpack(data, variant)
    export = Reversi().run(JobSpec("e", "export", variant, 0, {"batches": (batch.blob,)}), Scratch(tmp_path))
    rows = samples.unpack(Scratch(tmp_path).open_input(export.outputs[0].blob).read_bytes(), variant)

    assert batch.meta["games"] == len(loaded) == 12
    assert meta["source"] == "imported"
    assert [int(loaded.lengths()[number]) for number in range(12)] == [len(one["moves"]) for one in games]
    assert tuple(export.refused) == ()
    assert (rows.pi_idx[:, 0] == loaded.moves).all()
    assert (rows.pi_p[:, 0] == 1).all()
    assert np.allclose(rows.root_v, rows.result, atol=1e-3)
    assert len(np.unique(rows.game)) == 12, "each game has a seed of its own"


def test_the_same_moves_by_name_and_by_number_are_one_game(tmp_path: Path) -> None:
    """Names are those of the terminal, in any case."""
    result = run(tmp_path, [game(1), game(1, names=True)])

    assert (result.outputs[-1].meta["games"], result.outputs[-1].meta["repeated"]) == (1, 1)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda one: one["moves"].__setitem__(4, one["moves"][3]), "it has an illegal move at move 5"),
        (lambda one: one["moves"].append(0), "it has moves after its end at move 61"),
        (lambda one: one["moves"].pop(), "it has no end"),
        (lambda one: one["result"].reverse(), "it has another result than its last position"),
        (lambda one: one["result"].append(0), "its result has 3 seats, not 2"),
        (lambda one: one["moves"].__setitem__(0, 64), "64 is no cell of square8"),
        (lambda one: one["moves"].__setitem__(0, "i9"), "'i9' is no cell of square8"),
    ],
    ids=["illegal", "late", "short", "result", "seats", "number", "name"],
)
def test_a_game_that_breaks_the_rules_is_refused_alone(tmp_path: Path, change: Any, error: str) -> None:
    """The other game of the file counts, and the row is named."""
    bad, good = game(2), game(4)
    assert bad["result"] != [0.5, 0.5]
    assert len(bad["moves"]) == 60
    change(bad)

    report = run(tmp_path, [bad, good]).outputs[-1]

    assert (report.meta["games"], report.meta["refused"]) == (1, 1)
    assert report.meta["errors"] == f"row 1: {error}"


def test_pending_games_are_replayed_by_export(tmp_path: Path) -> None:
    """One that is bad costs its batch there, so that none is trained on."""
    bad = game(2)
    bad["moves"].pop()
    good = run(tmp_path, [game(1)], replay=False).outputs[0].blob
    mixed = run(tmp_path, [bad, game(4)], replay=False).outputs[0].blob
    export = JobSpec("e", "export", "square8_2p", 0, {"batches": (good, mixed)})

    assert Reversi().run(export, Scratch(tmp_path)).refused == (mixed,)


def test_a_file_in_which_no_game_replays_is_refused(tmp_path: Path) -> None:
    """With the reason of the first."""
    with pytest.raises(Refused, match="none of its 1 games of square8_2p replays; row 1: it has another result"):
        run(tmp_path, [game(2) | {"result": [0.5, 0.5]}])
