"""Matches: openings that are all different, played from every seat, the same wherever and whenever."""

from pathlib import Path

import numpy as np
import pytest

from ringrift.workload.api import JobResult, JobSpec, Refused
from ringrift.workload.scratch import Scratch
from ringrift_reversi import baselines, match, net, stages
from ringrift_reversi.topology import VARIANTS, topology
from ringrift_reversi.workload import OPENING_PLIES


def going() -> bool:
    """Return that no stop is requested."""
    return True


@pytest.mark.parametrize("variant", ["square8_2p", "hex8_3p", "hex8_4p"])
def test_openings_are_distinct_and_long_enough(variant: str) -> None:
    """No position comes twice, no player has lost yet, and at least eight discs were played."""
    boards, movers = match.openings(variant, 7, 300)

    discs = (boards > 0).sum(1)
    assert len({board.tobytes() + bytes([mover]) for board, mover in zip(boards, movers, strict=True)}) == 300
    assert (movers >= 0).all()
    assert (discs - discs.min() <= 1).all()
    assert discs.min() >= OPENING_PLIES + 4


def test_openings_run_out_by_growing() -> None:
    """Where there are not enough openings of that length, the others are longer."""
    boards, _ = match.openings("square8_2p", 7, 60, plies=2)

    assert len({board.tobytes() for board in boards}) == 60


def test_an_opening_depends_on_seed_and_number_alone() -> None:
    """More openings do not change the first ones; another seed does."""
    few, many = match.openings("hex8_3p", 7, 5)[0], match.openings("hex8_3p", 7, 50)[0]

    assert np.array_equal(few, many[:5])
    assert not np.array_equal(few, match.openings("hex8_3p", 8, 5)[0])


def score(variant: str, candidate: str, champion: str, blocks: int = 24) -> float:
    """The score of *candidate* against copies of *champion*."""
    players = match.BaselinePlayer(candidate, variant, 1), match.BaselinePlayer(champion, variant, 1)
    played = [
        block
        for wave in match.waves(variant, players, match.openings(variant, 3, blocks), first=0, should_go_on=going)
        for block in wave
    ]
    return float(np.mean([block.scores for block in played]))


def test_stronger_players_win() -> None:
    """The ladder of players that never train is one; a player against itself is even."""
    assert score("square8_2p", "uct:50", "random") > 0.9
    assert score("hex8_3p", "uct:50", "random") > 0.6
    assert score("hex8_3p", "random", "random", 60) == pytest.approx(1 / 3, abs=0.12)


@pytest.mark.parametrize("name", baselines._LADDER[:4])
def test_a_match_of_a_player_with_itself_is_even_by_sum(name: str) -> None:
    """Two equal players get, over both seats, exactly one point."""
    assert score("square8_2p", name, name, 6) == 0.5


def run(folder: Path, variant: str, inputs: dict[str, tuple[str, ...]], **params: str | int) -> JobResult:
    """A match job."""
    job = JobSpec("job", "match", variant, 2, inputs=inputs, params={"first": 0, "count": 4, "sims": 4, **params})
    return stages.run(job, Scratch(folder))


def test_players_are_named_in_inputs_or_params(tmp_path: Path) -> None:
    """A model by its blob, one that never trains by its name."""
    model = Scratch(tmp_path).publish("model", net.save(net.new_net("hex8_2p", 1), {}), {}).blob

    by_input = run(tmp_path, "hex8_2p", {"candidate": (model,), "champion": ("greedy",)})
    by_param = run(tmp_path, "hex8_2p", {"candidate": (model,)}, champion="greedy")

    assert by_input.blocks == by_param.blocks
    assert [block.number for block in by_input.blocks] == [0, 1, 2, 3]
    assert by_input.metrics["blocks"] == 4
    with pytest.raises(Refused, match="unknown player 'unknown'; known: greedy"):
        run(tmp_path, "hex8_2p", {"candidate": (model,)}, champion="unknown")
    with pytest.raises(Refused, match="opening_plies from 8"):
        run(tmp_path, "hex8_2p", {"candidate": (model,), "champion": ("greedy",)}, opening_plies=4)


def test_blocks_do_not_depend_on_waves() -> None:
    """The scores of a block do not depend on how many are played at the same time."""
    first, second = (
        match.NetPlayer(net.new_net("hex8_3p", seed), sims=4, dtype="bfloat16", rows=21) for seed in (1, 2)
    )
    openings = match.openings("hex8_3p", 1, 9)

    together, apart = (
        [*match.waves("hex8_3p", (first, second), openings, first=2, should_go_on=going, size=size)] for size in (7, 2)
    )

    assert [block for wave in apart for block in wave] == together[0]


def test_slow_players_send_heartbeats_between_moves(tmp_path: Path) -> None:
    """A search of random games gets one position at a time."""
    beats: list[int] = []
    player = match.BaselinePlayer("uct:50", "square8_2p", 1, lambda: beats.append(1))
    boards, movers = match.openings("square8_2p", 1, 5)

    cells = player.choose(boards, movers)

    assert len(beats) == 5
    assert topology(VARIANTS["square8_2p"][0]).cells > cells.max() >= 0


def test_ranks_count_the_beaten_opponents() -> None:
    """Seats are ranked by discs, as many are half; among two it is the score."""
    board = np.array([[1, 1, 1, 2, 2, 3, 3, 0], [1, 2, 3, 4, 4, 4, 4, 4]], np.int8)

    assert match._ranks(board[:1], 3).tolist() == [[1.0, 0.25, 0.25]]
    assert match._ranks(board[1:], 4) == pytest.approx(np.array([[1 / 3, 1 / 3, 1 / 3, 1.0]]))


@pytest.mark.parametrize("variant", ["hex8_2p", "hex8_4p"])
def test_ranks_and_scores_agree(variant: str) -> None:
    """A seat with first place alone has beaten all others; among two both numbers are one."""
    greedy, random = (match.BaselinePlayer(name, variant, 3) for name in ("greedy", "random"))

    openings = match.openings(variant, 1, 6)
    (blocks,) = match.waves(variant, (greedy, random), openings, first=0, should_go_on=going)

    for block in blocks:
        assert all((score == 1.0) == (rank == 1.0) for score, rank in zip(block.scores, block.ranks, strict=True))
    if variant == "hex8_2p":
        assert all(block.ranks == block.scores for block in blocks)
