"""Reports of nodes are counted, compared and tested, and a wrong node is quarantined with a verdict."""

import pytest

from ringrift.evaluation import canary
from ringrift.evaluation.homogeneity import RESIDUAL_MAX
from ringrift.events.base import Event
from ringrift.events.evaluation import Block, BlocksPlayed
from ringrift.events.node import CanaryPlayed, Quarantined
from ringrift.events.selfplay import BatchFinished
from ringrift.events.work import Buried
from ringrift.jobs import Purpose
from ringrift.kernel.value import changed
from ringrift.pipeline.trust import (
    _OPEN_MAX,
    _TALLIES_MAX,
    Result,
    Trust,
    TrustState,
    TrustStep,
    give_up_canary,
    judge_result,
    operator_verdict,
)

VARIANT = "hex8_2p"
NEW = canary.fresh(VARIANT, "1")
WON, EVEN, LOST = (1.0, 1.0), (1.0, 0.0), (0.0, 0.0)


def stored(node: str = "a", **changes: object) -> TrustState:
    """Return the initial record of a node."""
    return changed(TrustState(trust=Trust(node=node), canaries=NEW), **changes)


def batch(games: int, node: str = "a") -> BatchFinished:
    """Self-play of a node."""
    return BatchFinished(variant=VARIANT, batch="b", games=games, node=node, model="m")


def blocks(node: str, *scores: tuple[float, ...], times: int = 1, candidate: str = "c") -> BlocksPlayed:
    """Blocks of a match, as *node* reports them."""
    played = tuple(Block(number=number, scores=one) for number, one in enumerate(scores * times))
    return BlocksPlayed(variant=VARIANT, candidate=candidate, champion="m", blocks=played, node=node)


def canaries(node: str, *scores: tuple[float, ...], seed: int = NEW.seed) -> CanaryPlayed:
    """Canaries from number 0 on, as *node* reports them."""
    played = tuple(Block(number=number, scores=one) for number, one in enumerate(scores))
    return CanaryPlayed(variant=VARIANT, seed=seed, blocks=played, node=node)


def replay(start: TrustState, *events: Result) -> tuple[TrustState, list[Event]]:
    """Return the state after *events* of several nodes, and the published events."""
    trusts, output = {start.trust.node: start.trust}, list[Event]()
    for event in events:
        start = changed(start, trust=trusts.get(event.node, Trust(node=event.node)))
        step = judge_result(start, event, 7.0)
        start, trusts[event.node] = step.state, step.state.trust
        output += step.events
    return start, output


def jobs(step: TrustStep) -> list[tuple[str | None, int, int]]:
    """Return the requested canaries: node, first number, count."""
    return [(job.node, job.first, job.count) for job in step.jobs]


def test_games_are_counted_wherever_they_come_from() -> None:
    """Self-play, matches and canaries are games of the node."""
    after, _ = replay(stored(), batch(10), blocks("a", WON, LOST), canaries("a", EVEN))

    assert after.trust.games == 10 + 4 + 2
    assert after.trust.answered == 1


def test_canaries_are_enqueued_within_their_share() -> None:
    """One block of two games after 34 games, not before; the next has the next number."""
    early = judge_result(stored(), batch(33), 7.0)
    first = judge_result(early.state, batch(1), 7.0)
    second = judge_result(first.state, batch(70), 7.0)

    assert jobs(early) == []
    assert jobs(first) == [("a", 0, 1)]
    assert jobs(second) == [("a", 1, 2)]
    assert second.state.trust.canary_games == 6


def test_a_silent_node_gets_no_more_canaries() -> None:
    """Few canaries wait for one node; an answer makes room for the next."""
    after, request = stored(), 0
    for _ in range(10):
        step = judge_result(after, batch(1000), 7.0)
        after, request = step.state, request + len(step.jobs)

    assert request == _OPEN_MAX
    assert judge_result(after, canaries("a", EVEN), 7.0).jobs


def test_a_full_queue_puts_canaries_off() -> None:
    """Without room none is asked for, and none is forgotten: the next result with room asks for all that are owed."""
    full = judge_result(stored(room=False), batch(34), 7.0)
    again = judge_result(changed(full.state, room=True), batch(34), 7.0)

    assert jobs(full) == []
    assert full.state.trust.games == 34
    assert jobs(again) == [("a", 0, 2)]


def test_numbers_come_again_at_their_end() -> None:
    """After the last number a node begins anew."""
    start = stored(trust=Trust(node="a", following={VARIANT: canary.NUMBERS - 1}))

    step = judge_result(start, batch(1000), 7.0)

    assert jobs(step) == [("a", canary.NUMBERS - 1, 1)]
    assert step.state.trust.following == {VARIANT: 0}


def test_a_single_wrong_canary_quarantines() -> None:
    """It is published with its reason, and the verdict has value and limit."""
    after, _ = replay(stored(), canaries("a", EVEN, WON), canaries("b", EVEN, WON))

    step = judge_result(changed(after, trust=Trust(node="bad")), canaries("bad", EVEN, LOST), 7.0)

    [event], [why] = step.events, step.verdicts
    reason = "canary 1 of hex8_2p scores [1.0, 1.0], this node reported [0.0, 0.0]; wrong canaries: 1 of 0"
    assert event == Quarantined(node="bad", reason=reason)
    assert (why.gate, why.allowed, why.value, why.limit, why.since) == ("trust", False, 1.0, 0.0, 7.0)
    assert step.state.quarantined == {"bad"}
    assert step.jobs == ()


def test_a_wrong_report_is_judged_once_the_truth_is_known() -> None:
    """The node that completes the truth may be another one, which goes on."""
    after, output = replay(stored(), canaries("bad", LOST), canaries("a", WON), canaries("b", WON))

    assert [event.node for event in output if isinstance(event, Quarantined)] == ["bad"]
    assert after.quarantined == {"bad"}


def test_canaries_of_another_version_are_not_compared() -> None:
    """They were drawn from another seed: counted, but not compared."""
    after, output = replay(stored(trusted="a"), canaries("a", WON), canaries("b", LOST, seed=5))

    assert output == []
    assert list(after.canaries.reports[0]) == ["a"]


def test_an_outlier_is_quarantined() -> None:
    """The blocks of the outlier are removed from every tally, and the verdict has its distance."""
    fair = (WON, EVEN, EVEN, LOST)
    start, output = replay(stored(), *(blocks(node, *fair, times=25) for node in "abc"), blocks("bad", WON, times=60))

    [actual] = output
    assert isinstance(actual, Quarantined)
    assert actual.node == "bad"
    assert actual.reason.startswith("results away from those of other nodes, in deviations: ")
    assert float(actual.reason.rpartition(": ")[2].split()[0]) > RESIDUAL_MAX
    assert [sorted(tally.nodes) for tally in start.tallies] == [["a", "b", "c"]]


def test_reports_of_a_quarantined_node_count_for_nothing() -> None:
    """Nothing is counted, compared or enqueued."""
    start = stored("bad", quarantined=frozenset({"bad"}))

    for event in (batch(1000, "bad"), blocks("bad", WON), canaries("bad", WON)):
        assert judge_result(start, event, 7.0) == TrustStep(state=start)


def test_old_matches_are_forgotten() -> None:
    """Only the newest are remembered; the oldest goes when one too many has begun."""
    start, dropped = stored(), list[str]()
    for number in range(_TALLIES_MAX + 1):
        step = judge_result(start, blocks("a", WON, candidate=f"c{number}"), float(number))
        start, dropped = step.state, [*dropped, *step.dropped]

    assert len(start.tallies) == _TALLIES_MAX
    assert dropped == [f"{VARIANT}:c0:m:"]


@pytest.mark.parametrize(("attempts", "refused"), [(1, True), (4, False)])
def test_a_refused_canary_is_not_enqueued_again(attempts: int, refused: bool) -> None:
    """A workload without such players refuses at once; a node that only failed gets another later."""
    start = judge_result(stored(), batch(1000), 7.0).state
    names = {"variant": VARIANT, "job": "j", "kind": "match", "key": "k", "error": "no such player"}
    buried = Buried(**names, attempts=attempts, purpose=Purpose.CANARY, target="a")

    after = give_up_canary(start, buried).state

    assert after.trust.open_jobs == 0
    assert after.canaries.refused is refused
    assert bool(judge_result(after, batch(1000), 7.0).jobs) is not refused


def test_an_operator_needs_no_evidence() -> None:
    """The verdict is the operator's reason."""
    assert operator_verdict("its memory is bad", 5.0).rule == "by hand: its memory is bad"
    assert not operator_verdict("its memory is bad", 5.0).allowed
