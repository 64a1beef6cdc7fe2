"""The error budget: no test spends what is not there, and the sum of all alphas stays below share x promotions."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringrift.evaluation.budget import (
    ALPHA_MIN,
    PURSES,
    Account,
    begin,
    expected_false,
    expected_share,
    level,
    opened,
    settle,
    stricter,
)
from ringrift.evaluation.gate import bounds
from ringrift.kernel.settings import Budget, Gate

BUDGET, GATE = Budget(), Gate()


def after(story: str, budget: Budget = BUDGET) -> Account:
    """The account after a story: b = a test begins, r = one is rejected, p = one is promoted."""
    account = opened(budget)
    for step in story:
        account = begin(account, GATE)[0] if step == "b" else settle(account, budget, promoted=step == "p")
    return account


# What a story does: begin, or settle with this outcome if anything is open.
STEPS = st.lists(st.sampled_from("bbbrrp"), max_size=200)


def possible(steps: list[str]) -> str:
    """*steps* without those that would settle a test that never began."""
    story, running = "", 0
    for step in steps:
        if step == "b" or running:
            story += step
            running += 1 if step == "b" else -1
    return story


@settings(max_examples=100)
@given(STEPS, st.sampled_from([0.02, 0.1, 0.5]))
def test_the_alphas_never_exceed_the_share_of_the_promotions(steps: list[str], share: float) -> None:
    """However tests overlap and end, what all have spent is at most the share times the promotions that settled."""
    account = after(possible(steps), Budget(share=share))

    assert account.spent <= share * max(account.promoted, 1) + ALPHA_MIN * account.begun + 1e-12
    assert expected_false(account) == account.spent


@settings(max_examples=100)
@given(STEPS)
def test_nothing_is_lost_between_the_purses(steps: list[str]) -> None:
    """What was spent and what is left are together what was earned."""
    account = after(possible(steps))

    earned = BUDGET.share * account.promoted if account.promoted else BUDGET.share * BUDGET.start
    assert sum(account.purses) + account.spent == pytest.approx(earned, abs=ALPHA_MIN * account.begun + 1e-12)


@settings(max_examples=50)
@given(STEPS, st.integers(0, 199))
def test_one_more_promotion_never_lowers_a_level(steps: list[str], place: int) -> None:
    """What FDR control rests on: had a rejected candidate been promoted, every later test would get as much or more."""
    story = possible(steps)
    if "r" not in story[place:]:
        return
    turned = place + story[place:].index("r")
    other = story[:turned] + "p" + story[turned + 1 :]

    for end in range(turned + 1, len(story) + 1):
        assert level(after(other[:end]), GATE) >= level(after(story[:end]), GATE) - 1e-15


def test_what_has_not_settled_does_not_count() -> None:
    """A test that is still running has paid and earned nothing: only settled promotions raise the next level."""
    running = after("bb")

    assert level(settle(running, BUDGET, promoted=True), GATE) > level(running, GATE)
    assert level(running, GATE) < level(after("b"), GATE) < level(after(""), GATE)


def test_the_order_in_which_tests_settle_does_not_matter() -> None:
    """Two tests that overlap leave the same account whichever ends first."""
    assert after("bbpr") == after("bbrp")


def test_in_vain_levels_fall_but_do_not_vanish() -> None:
    """After a thousand rejections a test still gets more than the least, and after a promotion plenty again."""
    account = after("br" * 1000)

    assert ALPHA_MIN < level(account, GATE) < 1e-4
    assert level(settle(begin(account, GATE)[0], BUDGET, promoted=True), GATE) > 1e-3


def test_a_test_never_gets_more_than_its_gate_states() -> None:
    """A run that promotes nearly everyone saves what it does not need."""
    account = after("bp" * 200)

    assert level(account, GATE) == GATE.alpha
    assert account.spent == pytest.approx(200 * GATE.alpha, rel=0.1)
    assert sum(account.purses) == pytest.approx(200 * (BUDGET.share - GATE.alpha), rel=0.1)


def test_a_stricter_gate_gets_the_blocks_that_it_needs() -> None:
    """The cap grows as the upper bound does, everything else stays; the gate's own alpha changes nothing."""
    strict = stricter(GATE, 0.001)

    assert strict.alpha == 0.001
    assert strict.blocks_max / GATE.blocks_max == pytest.approx(bounds(strict)[1] / bounds(GATE)[1], rel=0.01)
    assert msgspec.structs.replace(strict, alpha=GATE.alpha, blocks_max=GATE.blocks_max) == GATE
    assert stricter(GATE, GATE.alpha) == GATE


def test_a_cap_has_an_end() -> None:
    """A gate that may take the most blocks of all gets no more, however strict."""
    assert stricter(Gate(blocks_max=100_000), ALPHA_MIN).blocks_max == 100_000


def test_a_gate_that_hardly_tests_gets_a_budget_too() -> None:
    """With even odds both bounds of the gate itself lie at 0; the test that pays is a real one."""
    _, gate = begin(opened(BUDGET), Gate(alpha=0.5, beta=0.5))

    assert gate.alpha < 0.1
    assert Gate().blocks_max < gate.blocks_max < 10 * Gate().blocks_max


def test_begin_hands_out_what_it_has_paid() -> None:
    """The alpha of the test's own gate is what the account has spent on it."""
    account = after("brbr")

    paid, gate = begin(account, GATE)

    assert gate.alpha == level(account, GATE)
    assert paid.spent - account.spent == pytest.approx(gate.alpha)
    assert paid.begun == account.begun + 1


def test_the_account_stays_small_and_comes_back_from_json() -> None:
    """Ten thousand tests later it has as many purses as before, and survives being stored."""
    account = after("bpbrbr" * 3000)

    assert len(account.purses) == PURSES
    assert msgspec.json.decode(msgspec.json.encode(account), type=Account) == account
    assert len(msgspec.json.encode(account)) < 600


def test_the_share_is_shown_as_people_read_it() -> None:
    """Promotions and what is expected to be false of them, and never more than all."""
    account = after("bp" * 10 + "br" * 10)

    assert expected_share(account) == pytest.approx(account.spent / 10)
    assert expected_share(account) <= BUDGET.share
    assert expected_share(Account(purses=(), spent=3.0)) == 1.0
