"""Canaries have one outcome on every sound machine: who reports another one is wrong."""

import pytest

from ringrift.evaluation import canary
from ringrift.evaluation.canary import (
    BLOCKS_PER_JOB,
    CANARY_SHARE_MAX,
    NUMBERS,
    WORDS_MAX,
    Canaries,
    agreeing,
    blocks_owed,
    forgotten,
    fresh,
    heard,
    job,
)  # fmt: skip
from ringrift.events.evaluation import Played
from ringrift.jobs import CANARY

TRUE, FALSE = (1.0, 0.0), (0.0, 0.0)
NEW = fresh("hex8_2p", "1")


def told(
    *words: tuple[str, tuple[float, ...]], known: Canaries = NEW, trusted: str | None = None, agree: int = 2
) -> tuple[Canaries, list[str]]:
    """What is known after *words* on number 3, one after the other, and who was found wrong on the way."""
    wrong: list[str] = []
    for node, scores in words:
        found = heard(known, node, [Played(number=3, scores=scores)], trusted=trusted, agree=agree)
        known, wrong = found.canaries, [*wrong, *(one.node for one in found.wrong)]
    return known, wrong


@pytest.mark.parametrize("players", [2, 3, 4])
def test_the_share_is_kept_from_the_first_game_on(players: int) -> None:
    """However games come in, what is asked for never exceeds the share of what was played, not by a single block."""
    asked = 0
    for games in range(5_000):
        asked += players * blocks_owed(games, asked, players)
        assert asked <= CANARY_SHARE_MAX * games
        assert asked > CANARY_SHARE_MAX * games - players - 1e-6


def test_a_canary_is_a_match_for_one_node_that_needs_no_files() -> None:
    """Two players that never train, a seed of its own, and a key that says whom it tries."""
    made = job(NEW, "n1", 3, 2)

    assert (made.node, made.canary, made.blobs, made.first, made.count) == ("n1", True, (), 3, 2)
    assert (made.candidate, made.opponent, made.seed) == ("greedy", "random", NEW.seed)
    assert made.key == f"{CANARY}n1:hex8_2p:{NEW.seed}:3"


def test_a_job_is_short_and_ends_with_the_numbers() -> None:
    """No more blocks than one job may have, and none beyond the last number."""
    assert job(NEW, "n1", 0, 1000).count == BLOCKS_PER_JOB
    assert job(NEW, "n1", NUMBERS - 2, 5).count == 2


def test_variants_and_versions_have_canaries_of_their_own() -> None:
    """Another version may draw openings otherwise: its results are not judged by this one's."""
    assert len({fresh(variant, version).seed for variant in ("hex8_2p", "hex8_3p") for version in "12"}) == 4


@pytest.mark.parametrize("order", [("a", "b", "bad"), ("bad", "a", "b"), ("a", "bad", "b")])
def test_one_mismatch_is_enough_whenever_it_comes(order: tuple[str, ...]) -> None:
    """What comes before the truth is known is judged with it."""
    _, wrong = told(*((node, FALSE if node == "bad" else TRUE) for node in order))

    assert wrong == ["bad"]


def test_one_against_one_convicts_nobody() -> None:
    """Without a majority there is no truth yet."""
    assert told(("a", TRUE), ("b", FALSE))[1] == []


def test_two_wrong_nodes_of_five_convict_nobody() -> None:
    """Three must say the same there, and they are the others."""
    words = ("a", TRUE), ("bad", FALSE), ("worse", FALSE), ("b", TRUE), ("c", TRUE)

    assert told(*words, agree=agreeing(5))[1] == ["worse", "bad"]


@pytest.mark.parametrize(("voters", "agree"), [(0, 2), (2, 2), (3, 2), (4, 3), (5, 3), (100, 3)])
def test_more_than_half_of_a_small_fleet_must_agree(voters: int, agree: int) -> None:
    """In a large one no more than the truth can wait for."""
    assert agreeing(voters) == agree


def test_the_trusted_node_tells_the_truth_where_there_is_no_majority() -> None:
    """Of two nodes it is believed, whoever speaks first."""
    assert told(("leader", TRUE), ("b", FALSE), trusted="leader")[1] == ["b"]
    assert told(("b", FALSE), ("leader", TRUE), trusted="leader")[1] == ["b"]


def test_who_contradicts_himself_is_wrong() -> None:
    """The same number again has the same outcome, though nobody else has played it; the first word stands."""
    known, wrong = told(("a", TRUE), ("a", TRUE), ("a", FALSE))

    assert wrong == ["a"]
    assert known.words == {3: {"a": TRUE}}


def test_ranks_count_as_well() -> None:
    """All that is said of a block must be right."""
    known, _ = told(("a", TRUE), ("b", TRUE))

    found = heard(known, "c", [Played(number=3, scores=TRUE, ranks=TRUE)], trusted=None, agree=2)

    assert [one.node for one in found.wrong] == ["c"]


def test_what_is_kept_is_bounded() -> None:
    """The first nodes make the truth; those beyond are judged by it and forgotten, and other numbers say nothing."""
    known, wrong = told(*((f"n{number}", TRUE) for number in range(WORDS_MAX)), ("late", TRUE), ("bad", FALSE))
    same = heard(
        known, "a", [Played(number=NUMBERS, scores=TRUE), Played(number=-1, scores=TRUE)], trusted=None, agree=2
    ).canaries

    assert wrong == ["bad"]
    assert len(known.words[3]) == WORDS_MAX
    assert same == known


def test_a_node_that_starts_anew_has_said_nothing() -> None:
    """Its words are gone, those of others stay."""
    known, _ = told(("a", TRUE), ("b", TRUE), ("bad", FALSE))

    assert forgotten(known, "bad").words == {3: {"a": TRUE, "b": TRUE}}
    assert forgotten(told(("a", TRUE))[0], "a").words == {}


def test_a_workload_without_such_players_is_remembered() -> None:
    """What was said before stays."""
    known, _ = told(("a", TRUE))

    assert canary.refused(known) == Canaries(variant="hex8_2p", seed=NEW.seed, refused=True, words=known.words)
