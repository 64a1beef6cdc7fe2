"""What nodes report is counted, compared and tried, and who is wrong is quarantined with a verdict."""

import pytest

from ringrift.evaluation import canary
from ringrift.evaluation.homogeneity import RESIDUAL_MAX
from ringrift.events.base import Event
from ringrift.events.evaluation import BlocksPlayed, Played
from ringrift.events.node import CanaryPlayed, Quarantined
from ringrift.events.selfplay import BatchFinished
from ringrift.events.work import Buried
from ringrift.jobs import Match
from ringrift.pipeline.step import changed
from ringrift.pipeline.trust import (
    OPEN_MAX,
    TALLIES_MAX,
    Known,
    Result,
    Trust,
    Turn,
    by_hand,
    give_up,
    node_of,
    take,
)  # fmt: skip

VARIANT = "hex8_2p"
NEW = canary.fresh(VARIANT, "1")
WON, EVEN, LOST = (1.0, 1.0), (1.0, 0.0), (0.0, 0.0)


def known(node: str = "a", **changes: object) -> Known:
    """What is known of a node at its beginning."""
    return changed(Known(trust=Trust(node=node), canaries=NEW), **changes)


def batch(games: int, node: str = "a") -> BatchFinished:
    """Self-play of a node."""
    return BatchFinished(variant=VARIANT, batch="b", games=games, node=node, model="m")


def blocks(node: str, *scores: tuple[float, ...], times: int = 1, candidate: str = "c") -> BlocksPlayed:
    """Blocks of a match, as *node* reports them."""
    played = tuple(Played(number=number, scores=one) for number, one in enumerate(scores * times))
    return BlocksPlayed(variant=VARIANT, candidate=candidate, champion="m", blocks=played, node=node)


def canaries(node: str, *scores: tuple[float, ...], seed: int = NEW.seed) -> CanaryPlayed:
    """Canaries from number 0 on, as *node* reports them."""
    played = tuple(Played(number=number, scores=one) for number, one in enumerate(scores))
    return CanaryPlayed(variant=VARIANT, seed=seed, blocks=played, node=node)


def story(start: Known, *events: Result) -> tuple[Known, list[Event]]:
    """What is known after *events* of several nodes, and what was said."""
    trusts, said = {start.trust.node: start.trust}, list[Event]()
    for event in events:
        start = changed(start, trust=trusts.get(event.node, Trust(node=event.node)))
        turn = take(start, event, 7.0)
        start, trusts[event.node] = turn.known, turn.known.trust
        said += turn.events
    return start, said


def jobs(turn: Turn) -> list[tuple[str | None, int, int]]:
    """For whom canaries are asked, from which number on, how many."""
    return [(job.node, job.first, job.count) for job in turn.jobs]


def test_games_are_counted_wherever_they_come_from() -> None:
    """Self-play, matches and canaries are games of the node."""
    after, _ = story(known(), batch(10), blocks("a", WON, LOST), canaries("a", EVEN))

    assert after.trust.games == 10 + 4 + 2
    assert after.trust.answered == 1


def test_canaries_are_asked_for_as_their_share_allows() -> None:
    """One block of two games after 34 games, not before; the next has the next number."""
    early = take(known(), batch(33), 7.0)
    first = take(early.known, batch(1), 7.0)
    second = take(first.known, batch(70), 7.0)

    assert jobs(early) == []
    assert jobs(first) == [("a", 0, 1)]
    assert jobs(second) == [("a", 1, 2)]
    assert second.known.trust.canary_games == 6


def test_a_node_that_does_not_answer_is_asked_no_more() -> None:
    """Few canaries wait for one node; an answer makes room for the next."""
    after, asked = known(), 0
    for _ in range(10):
        turn = take(after, batch(1000), 7.0)
        after, asked = turn.known, asked + len(turn.jobs)

    assert asked == OPEN_MAX
    assert take(after, canaries("a", EVEN), 7.0).jobs


def test_numbers_come_again_at_their_end() -> None:
    """After the last number a node begins anew."""
    start = known(trust=Trust(node="a", following={VARIANT: canary.NUMBERS - 1}))

    turn = take(start, batch(1000), 7.0)

    assert jobs(turn) == [("a", canary.NUMBERS - 1, 1)]
    assert turn.known.trust.following == {VARIANT: 0}


def test_one_wrong_canary_quarantines() -> None:
    """It is said with its reason, and the verdict has value and limit."""
    after, _ = story(known(), canaries("a", EVEN, WON), canaries("b", EVEN, WON))

    turn = take(changed(after, trust=Trust(node="bad")), canaries("bad", EVEN, LOST), 7.0)

    [said], [why] = turn.events, turn.verdicts
    reason = "canary 1 of hex8_2p scores [1.0, 1.0], not [0.0, 0.0]: wrong: 1 of 0"
    assert said == Quarantined(node="bad", reason=reason)
    assert (why.gate, why.allowed, why.value, why.limit, why.since) == ("trust", False, 1.0, 0.0, 7.0)
    assert turn.known.quarantined == {"bad"}
    assert turn.jobs == ()


def test_a_wrong_word_waits_for_the_truth() -> None:
    """Whoever makes it known may be another node, which goes on."""
    after, said = story(known(), canaries("bad", LOST), canaries("a", WON), canaries("b", WON))

    assert [one.node for one in said if isinstance(one, Quarantined)] == ["bad"]
    assert after.quarantined == {"bad"}


def test_canaries_of_another_version_say_nothing() -> None:
    """They were drawn from another seed: counted, but not compared."""
    after, said = story(known(trusted="a"), canaries("a", WON), canaries("b", LOST, seed=5))

    assert said == []
    assert list(after.canaries.words[0]) == ["a"]


def test_who_lies_far_from_the_others_is_quarantined() -> None:
    """The blocks of the outlier are out of every tally, and the verdict tells how far it was."""
    fair = (WON, EVEN, EVEN, LOST)
    start, said = story(known(), *(blocks(node, *fair, times=25) for node in "abc"), blocks("bad", WON, times=60))

    [found] = said
    assert isinstance(found, Quarantined)
    assert found.node == "bad"
    assert found.reason.startswith("results away from those of other nodes, in deviations: ")
    assert float(found.reason.rpartition(": ")[2].split()[0]) > RESIDUAL_MAX
    assert [sorted(tally.nodes) for tally in start.tallies] == [["a", "b", "c"]]


def test_what_a_quarantined_node_still_says_counts_for_nothing() -> None:
    """Nothing is counted, compared or asked for."""
    start = known("bad", quarantined=frozenset({"bad"}))

    for event in (batch(1000, "bad"), blocks("bad", WON), canaries("bad", WON)):
        assert take(start, event, 7.0) == Turn(known=start)


def test_old_matches_are_forgotten() -> None:
    """Only the newest are remembered; the oldest goes when one too many has begun."""
    start, dropped = known(), list[str]()
    for number in range(TALLIES_MAX + 1):
        turn = take(start, blocks("a", WON, candidate=f"c{number}"), float(number))
        start, dropped = turn.known, [*dropped, *turn.dropped]

    assert len(start.tallies) == TALLIES_MAX
    assert dropped == [f"{VARIANT}:c0:m:"]


@pytest.mark.parametrize(("attempts", "refused"), [(1, True), (4, False)])
def test_a_canary_that_is_refused_is_not_asked_for_again(attempts: int, refused: bool) -> None:
    """A workload without such players says so at once; a node that only failed is asked again later."""
    start = take(known(), batch(1000), 7.0).known
    key = Match(
        variant=VARIANT, candidate="greedy", baseline="random", purpose="canary", first=0, count=1, node="a"
    ).key
    buried = Buried(variant=VARIANT, job="j", kind="match", key=key, attempts=attempts, error="no such player")

    after = give_up(start, buried).known

    assert after.trust.under_way == 0
    assert after.canaries.refused is refused
    assert bool(take(after, batch(1000), 7.0).jobs) is not refused


def test_a_key_says_whom_a_canary_tries() -> None:
    """Keys of other jobs say nobody."""
    assert node_of(f"{Match.canaries('n-1')}hex8_2p:7:0") == "n-1"
    assert node_of("match:hex8_2p:c:0") is None


def test_a_person_needs_no_evidence() -> None:
    """The verdict is the reason that was given."""
    assert by_hand("its memory is bad", 5.0).rule == "by hand: its memory is bad"
    assert not by_hand("its memory is bad", 5.0).allowed
