"""A model's life takes only the steps that it may, and is remembered up to a limit."""

from itertools import product

import pytest

from ringrift.kernel.errors import IllegalTransition
from ringrift.pipeline.models import NEXT, STEPS_MAX, Change, Model, State, become, key

V = "hex8_2p"
LIVED = tuple(state for state in State if state is not State.TRAINING)
ALLOWED = {
    (State.CANDIDATE, State.EVALUATING), (State.CANDIDATE, State.REJECTED), (State.CANDIDATE, State.CHAMPION),
    (State.CANDIDATE, State.LOST),
    (State.EVALUATING, State.CHAMPION), (State.EVALUATING, State.REJECTED), (State.EVALUATING, State.LOST),
    (State.CHAMPION, State.RETIRED), (State.CHAMPION, State.ROLLED_BACK), (State.CHAMPION, State.LOST),
    (State.RETIRED, State.CHAMPION), (State.RETIRED, State.CANDIDATE), (State.RETIRED, State.LOST),
    (State.REJECTED, State.CANDIDATE), (State.REJECTED, State.LOST),
    (State.ROLLED_BACK, State.CANDIDATE), (State.ROLLED_BACK, State.LOST),
    (State.LOST, State.CANDIDATE),
}  # fmt: skip


def in_state(state: State) -> Model:
    """A model that has come to *state*."""
    return become(None, V, Change(model="m", generation=3, state=state), 1.0)


@pytest.mark.parametrize(("before", "after"), [pair for pair in product(LIVED, State) if pair[0] is not pair[1]])
def test_each_step_is_allowed_or_refused(before: State, after: State) -> None:
    """Of all pairs only those of the picture pass; any other is refused, and says what may follow."""
    known = in_state(before)
    change = Change(model="m", generation=3, state=after)

    if (before, after) in ALLOWED:
        now = become(known, V, change, 2.0)
        assert (now.state, now.since, now.steps) == (after, 2.0, ((before, 1.0), (after, 2.0)))
    else:
        with pytest.raises(IllegalTransition) as refused:
            become(known, V, change, 2.0)
        assert (refused.value.before, refused.value.state) == (before, after)
        assert all(state in str(refused.value) for state in NEXT[before])


@pytest.mark.parametrize("state", LIVED)
def test_the_same_state_again_changes_nothing(state: State) -> None:
    """Not even since when."""
    known = in_state(state)

    assert become(known, V, Change(model="m", generation=9, state=state), 5.0) is known


def test_nobody_becomes_champion_from_a_rejection() -> None:
    """Neither who was rejected nor who was rolled back: both go the way of a candidate."""
    assert all(State.CHAMPION not in NEXT[state] for state in (State.REJECTED, State.ROLLED_BACK, State.LOST))


@pytest.mark.parametrize("state", LIVED)
def test_one_that_nobody_has_heard_of_may_come_to_any_state(state: State) -> None:
    """A store may be older than these records."""
    assert in_state(state).steps == ((state, 1.0),)


def test_a_long_life_keeps_its_last_steps() -> None:
    """Steps are remembered up to their limit."""
    known = in_state(State.CANDIDATE)
    for at in range(2, 2 * STEPS_MAX):
        state = State.REJECTED if known.state is State.CANDIDATE else State.CANDIDATE
        known = become(known, V, Change(model="m", generation=3, state=state), float(at))

    assert len(known.steps) == STEPS_MAX
    assert known.steps[-1] == (known.state, known.since)


def test_a_model_is_remembered_for_its_variant() -> None:
    """The same weights in two lines live two lives."""
    assert key("hex8_2p", "m") != key("hex8_3p", "m")
