"""Budget: how many promotions of a whole run may be false, and what each test may spend of that.

One test at 5 % promotes one equal candidate in twenty; a run makes thousands of tests, and most candidates are no
stronger.  So tests pay their alpha from an account.  It opens with a part of the share, every promotion earns one share
more, and no test may spend what is not there: the sum of all alphas never exceeds share x promotions, so neither does
the expected number of false ones.  This is LORD++ (Ramdas et al. 2017) in its asynchronous form (Zrnic et al. 2021):
a test pays when it begins and earns when it has settled, so tests may overlap and settle in any order.

What was earned lies in purses of equal size.  A test takes half of the first, a quarter of the second and so on: soon
after a promotion tests get much, and after thousands in vain they still get something.  The purses are all that is
remembered of the past, so that the account stays small for ever.
"""

import math

from ringrift.evaluation.gate import bounds
from ringrift.kernel.settings import Budget, Gate
from ringrift.kernel.value import Value, changed

_PURSES = 13  #: The last one lasts for about 2 to this power tests.
_ALPHA_MIN = 1e-6  #: The least alpha of a test, however long nothing was promoted: a million tests spend 1 by it.
_BLOCKS_MAX = 100_000  #: No cap is longer, whatever the alpha.
_UPPER_MIN = 0.5  #: A gate that hardly tests at all has its upper bound at about 0; its cap grows as if it lay here.


class Account(Value):
    """The error budget of a run: left to spend, spent and earned so far."""

    purses: tuple[float, ...]
    begun: int = 0
    settled: int = 0
    promoted: int = 0
    spent: float = 0.0  #: The alphas of all tests that have begun: as many false promotions are to be expected at most.


def open_account(budget: Budget) -> Account:
    """The account of a run before its first test."""
    return Account(purses=(budget.share * budget.start / _PURSES,) * _PURSES)


def begin(account: Account, gate: Gate) -> tuple[Account, Gate]:
    """The account after the next test has paid, and its gate: keep it, its alpha hangs on what has settled by now."""
    offered = math.fsum(purse * 0.5**place for place, purse in enumerate(account.purses, start=1))
    alpha = max(min(offered, gate.alpha), _ALPHA_MIN)
    # A test that may not take all that is offered leaves the same part of it in every purse.
    share = min(alpha / offered, 1.0) if offered else 0.0
    left = tuple(purse * (1.0 - share * 0.5**place) for place, purse in enumerate(account.purses, start=1))
    spent = math.fsum((account.spent, alpha))
    return changed(account, purses=left, begun=account.begun + 1, spent=spent), _stricter(gate, alpha)


def _stricter(gate: Gate, alpha: float) -> Gate:
    """*gate* with a smaller *alpha*, and as many more blocks as its upper bound is further away."""
    # Without them true candidates would be undecided at the cap: a stricter gate would not be slower but blind.
    strict = changed(gate, alpha=alpha)
    blocks = math.ceil(gate.blocks_max * bounds(strict)[1] / max(bounds(gate)[1], _UPPER_MIN))
    return changed(strict, blocks_max=max(gate.blocks_max, min(blocks, _BLOCKS_MAX)))


def settle(account: Account, budget: Budget, *, promoted: bool) -> Account:
    """The account after a test has ended; one that was given up counts as not promoted."""
    assert account.settled < account.begun
    if not promoted:
        return changed(account, settled=account.settled + 1)
    # What was there at the start was lent by the first promotion.
    earned = budget.share if account.promoted else budget.share * (1.0 - budget.start)
    purses = tuple(purse + earned / len(account.purses) for purse in account.purses)
    return changed(account, purses=purses, settled=account.settled + 1, promoted=account.promoted + 1)


def expected_share(account: Account) -> float:
    """The share of promotions that may be false, at most: each test promotes an equal candidate with its own alpha."""
    return min(account.spent / max(account.promoted, 1), 1.0)
