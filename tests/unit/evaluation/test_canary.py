"""Canaries have one outcome on every sound machine: a node that reports another one is wrong."""

import pytest

from ringrift.evaluation.canary import (
    _BLOCKS_PER_JOB,
    _CANARY_SHARE_MAX,
    _REPORTS_MAX,
    NUMBERS,
    Canaries,
    agreement,
    blocks_owed,
    forget,
    fresh,
    job,
    judge_report,
)
from ringrift.events.evaluation import Block
from ringrift.jobs import Purpose

TRUE, FALSE = (1.0, 0.0), (0.0, 0.0)
NEW = fresh("hex8_2p", "1")


def reported(
    *reports: tuple[str, tuple[float, ...]], canaries: Canaries = NEW, trusted: str | None = None, agree: int = 2
) -> tuple[Canaries, list[str]]:
    """The canaries after *reports* on number 3, one after the other, and the nodes that were wrong on the way."""
    errors: list[str] = []
    for node, scores in reports:
        block = Block(number=3, scores=scores)
        canaries, mismatches = judge_report(canaries, node, [block], trusted=trusted, agree=agree)
        errors += [mismatch.node for mismatch in mismatches]
    return canaries, errors


@pytest.mark.parametrize("players", [2, 3, 4])
def test_the_share_is_kept_from_the_first_game_on(players: int) -> None:
    """However games come in, the requested blocks never exceed the share of the played ones, not by a single block."""
    request = 0
    for games in range(5_000):
        request += players * blocks_owed(games, request, players)
        assert request <= _CANARY_SHARE_MAX * games
        assert request > _CANARY_SHARE_MAX * games - players - 1e-6


def test_a_canary_is_a_match_for_one_node_that_needs_no_files() -> None:
    """Two baselines, a seed of its own, and a purpose that never promotes."""
    made = job(NEW, "n1", 3, 2)

    assert (made.node, made.is_canary, made.blobs, made.first, made.count) == ("n1", True, (), 3, 2)
    assert (made.candidate, made.opponent, made.seed) == ("greedy", "random", NEW.seed)
    assert made.purpose == Purpose.CANARY


def test_a_job_is_short_and_ends_with_the_numbers() -> None:
    """No more blocks than one job may have, and none beyond the last number."""
    assert job(NEW, "n1", 0, 1000).count == _BLOCKS_PER_JOB
    assert job(NEW, "n1", NUMBERS - 2, 5).count == 2


def test_variants_and_versions_have_canaries_of_their_own() -> None:
    """Another version may draw openings otherwise: its results are not judged by this one's."""
    assert len({fresh(variant, version).seed for variant in ("hex8_2p", "hex8_3p") for version in "12"}) == 4


def test_canaries_are_between_declared_players() -> None:
    """The two weakest, or the only one against itself; others are another match, and without any there is none."""
    players = {
        names: fresh("hex8_2p", "1", names) for names in (("random",), ("random", "greedy", "uct:200"), ("x", "y"))
    }

    assert job(players["random", "greedy", "uct:200"], "n1", 0, 1).candidate == "greedy"
    assert [made.players for made in players.values()] == [("random", "random"), ("greedy", "random"), ("y", "x")]
    assert len({made.seed for made in (*players.values(), NEW)}) == 4
    assert not any(made.refused for made in players.values())
    assert fresh("hex8_2p", "1", ()).refused


@pytest.mark.parametrize("order", [("a", "b", "bad"), ("bad", "a", "b"), ("a", "bad", "b")])
def test_a_single_mismatch_is_enough_at_any_time(order: tuple[str, ...]) -> None:
    """Results from before the truth is established are judged with it."""
    _, errors = reported(*((node, FALSE if node == "bad" else TRUE) for node in order))

    assert errors == ["bad"]


def test_one_against_one_convicts_no_node() -> None:
    """Without a majority there is no truth yet."""
    assert reported(("a", TRUE), ("b", FALSE))[1] == []


def test_two_wrong_nodes_of_five_convict_no_other() -> None:
    """Three equal reports are needed there, and they are the others."""
    words = ("a", TRUE), ("bad", FALSE), ("worse", FALSE), ("b", TRUE), ("c", TRUE)

    assert reported(*words, agree=agreement(5))[1] == ["worse", "bad"]


@pytest.mark.parametrize(("voters", "agree"), [(0, 2), (2, 2), (3, 2), (4, 3), (5, 3), (100, 3)])
def test_more_than_half_of_a_small_fleet_must_agree(voters: int, agree: int) -> None:
    """In a large one no more than the truth can wait for."""
    assert agreement(voters) == agree


def test_the_trusted_node_decides_without_a_majority() -> None:
    """Among two nodes it decides, in any order of reports."""
    assert reported(("leader", TRUE), ("b", FALSE), trusted="leader")[1] == ["b"]
    assert reported(("b", FALSE), ("leader", TRUE), trusted="leader")[1] == ["b"]


def test_a_node_that_contradicts_itself_is_wrong() -> None:
    """The same number again has the same outcome, also without other players of it; the first report stands."""
    canaries, errors = reported(("a", TRUE), ("a", TRUE), ("a", FALSE))

    assert errors == ["a"]
    assert canaries.reports == {3: {"a": TRUE}}


def test_ranks_count_as_well() -> None:
    """Every value of a block must be right."""
    canaries, _ = reported(("a", TRUE), ("b", TRUE))

    _, mismatches = judge_report(canaries, "c", [Block(number=3, scores=TRUE, ranks=TRUE)], trusted=None, agree=2)

    assert [mismatch.node for mismatch in mismatches] == ["c"]


def test_stored_reports_are_bounded() -> None:
    """The first nodes make the truth; those beyond are judged by it and forgotten, and other numbers have no effect."""
    canaries, errors = reported(
        *((f"n{number}", TRUE) for number in range(_REPORTS_MAX)), ("late", TRUE), ("bad", FALSE)
    )
    beyond = [Block(number=NUMBERS, scores=TRUE), Block(number=-1, scores=TRUE)]
    same, _ = judge_report(canaries, "a", beyond, trusted=None, agree=2)

    assert errors == ["bad"]
    assert len(canaries.reports[3]) == _REPORTS_MAX
    assert same == canaries


def test_a_released_node_has_no_reports() -> None:
    """Its reports are removed, those of others stay."""
    canaries, _ = reported(("a", TRUE), ("b", TRUE), ("bad", FALSE))

    assert forget(canaries, "bad").reports == {3: {"a": TRUE, "b": TRUE}}
    assert forget(reported(("a", TRUE))[0], "a").reports == {}
