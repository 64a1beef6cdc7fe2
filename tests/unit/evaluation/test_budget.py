"""The error budget: no test spends what is not there, and the sum of all alphas stays below share x promotions."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringrift.evaluation.budget import (
    _ALPHA_MIN,
    _PURSES,
    Account,
    _stricter,
    begin,
    expected_share,
    open_account,
    settle,
)
from ringrift.evaluation.gate import bounds
from ringrift.kernel.settings import Budget, Gate

BUDGET, GATE = Budget(), Gate()


def after(story: str, budget: Budget = BUDGET) -> Account:
    """Return the account after a history: b = a test begins, r = one is rejected, p = one is promoted."""
    account = open_account(budget)
    for step in story:
        account = begin(account, GATE)[0] if step == "b" else settle(account, budget, promoted=step == "p")
    return account


def level(account: Account, gate: Gate) -> float:
    """Return the alpha of the next test."""
    return begin(account, gate)[1].alpha


# The steps of a history: begin, or settle with this outcome if anything is open.
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
    """However tests overlap and end, the total spent is at most the share times the settled promotions."""
    account = after(possible(steps), Budget(share=share))

    assert account.spent <= share * max(account.promoted, 1) + _ALPHA_MIN * account.begun + 1e-12


@settings(max_examples=100)
@given(STEPS)
def test_nothing_is_lost_between_the_purses(steps: list[str]) -> None:
    """The sum of spent and left equals the earned."""
    account = after(possible(steps))

    earned = BUDGET.share * account.promoted if account.promoted else BUDGET.share * BUDGET.start
    assert sum(account.purses) + account.spent == pytest.approx(earned, abs=_ALPHA_MIN * account.begun + 1e-12)


@settings(max_examples=50)
@given(STEPS, st.integers(0, 199))
def test_one_more_promotion_never_lowers_alevel(steps: list[str], place: int) -> None:
    """FDR control rests on this: had a rejected candidate been promoted, every later test would get as much or more."""
    story = possible(steps)
    if "r" not in story[place:]:
        return
    turned = place + story[place:].index("r")
    other = story[:turned] + "p" + story[turned + 1 :]

    for end in range(turned + 1, len(story) + 1):
        assert level(after(other[:end]), GATE) >= level(after(story[:end]), GATE) - 1e-15


def test_an_unsettled_test_does_not_count() -> None:
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

    assert _ALPHA_MIN < level(account, GATE) < 1e-4
    assert level(settle(begin(account, GATE)[0], BUDGET, promoted=True), GATE) > 1e-3


def test_a_test_never_gets_more_than_its_gate_states() -> None:
    """A run that promotes nearly every candidate saves its surplus."""
    account = after("bp" * 200)

    assert level(account, GATE) == GATE.alpha
    assert account.spent == pytest.approx(200 * GATE.alpha, rel=0.1)
    assert sum(account.purses) == pytest.approx(200 * (BUDGET.share - GATE.alpha), rel=0.1)


def test_a_stricter_gate_gets_the_blocks_that_it_needs() -> None:
    """The cap grows as the upper bound does, everything else stays; the gate's own alpha changes nothing."""
    strict = _stricter(GATE, 0.001)

    assert strict.alpha == 0.001
    assert strict.blocks_max / GATE.blocks_max == pytest.approx(bounds(strict)[1] / bounds(GATE)[1], rel=0.01)
    assert msgspec.structs.replace(strict, alpha=GATE.alpha, blocks_max=GATE.blocks_max) == GATE
    assert _stricter(GATE, GATE.alpha) == GATE


def test_a_cap_is_bounded() -> None:
    """A gate at the largest number of blocks gets no more, however strict."""
    assert _stricter(Gate(blocks_max=100_000), _ALPHA_MIN).blocks_max == 100_000


def test_a_gate_that_hardly_tests_gets_a_budget_too() -> None:
    """With even odds both bounds of the gate itself lie at 0; the test that pays is a real one."""
    _, gate = begin(open_account(BUDGET), Gate(alpha=0.5, beta=0.5))

    assert gate.alpha < 0.1
    assert Gate().blocks_max < gate.blocks_max < 10 * Gate().blocks_max


def test_begin_returns_the_alpha_it_has_spent() -> None:
    """The alpha of the test's own gate is the amount that the account has spent on it."""
    account = after("brbr")

    paid, gate = begin(account, GATE)

    offered = sum(purse * 0.5**place for place, purse in enumerate(account.purses, start=1))
    assert gate.alpha == pytest.approx(min(offered, GATE.alpha))
    assert paid.spent - account.spent == pytest.approx(gate.alpha)
    assert paid.begun == account.begun + 1


def test_the_account_stays_small_and_comes_back_from_json() -> None:
    """Ten thousand tests later it has as many purses as before, and survives being stored."""
    account = after("bpbrbr" * 3000)

    assert len(account.purses) == _PURSES
    assert msgspec.json.decode(msgspec.json.encode(account), type=Account) == account
    assert len(msgspec.json.encode(account)) < 600


def test_the_share_is_formatted_for_people() -> None:
    """It shows the promotions and the expected number of false ones, never more than all."""
    account = after("bp" * 10 + "br" * 10)

    assert expected_share(account) == pytest.approx(account.spent / 10)
    assert expected_share(account) <= BUDGET.share
    assert expected_share(Account(purses=(), spent=3.0)) == 1.0
