"""A model takes only the allowed state changes, and its history is bounded."""

from itertools import product
from pathlib import Path

import pytest

from ringrift.kernel.errors import IllegalTransition
from ringrift.pipeline.models import _NEXT, _STEPS_MAX, MODELS, Change, Model, State, become
from unit.work.world import World, play

V = "hex8_2p"
BOTH = (V, "hex8_3p")
LIVED = tuple(state for state in State if state is not State.TRAINING)
ALLOWED = {
    *product([State.CANDIDATE], [State.EVALUATING, State.REJECTED, State.CHAMPION, State.LOST]),
    *product([State.EVALUATING], [State.CHAMPION, State.REJECTED, State.LOST]),
    *product([State.CHAMPION], [State.RETIRED, State.ROLLED_BACK, State.LOST]),
    *product([State.RETIRED], [State.CHAMPION, State.CANDIDATE, State.LOST]),
    *product([State.REJECTED, State.ROLLED_BACK], [State.CANDIDATE, State.LOST]),
    (State.LOST, State.CANDIDATE),
}


def in_state(state: State) -> Model:
    """A model that has come to *state*."""
    return become(None, V, Change(model="m", generation=3, state=state), 1.0)


@pytest.mark.parametrize(("before", "after"), [pair for pair in product(LIVED, State) if pair[0] is not pair[1]])
def test_each_step_is_allowed_or_refused(before: State, after: State) -> None:
    """Only the documented pairs pass; any other is refused, with the allowed next states."""
    model = in_state(before)
    change = Change(model="m", generation=3, state=after)

    if (before, after) in ALLOWED:
        now = become(model, V, change, 2.0)
        assert (now.state, now.since, now.steps) == (after, 2.0, ((before, 1.0), (after, 2.0)))
    else:
        with pytest.raises(IllegalTransition) as refused:
            become(model, V, change, 2.0)
        assert (refused.value.before, refused.value.state) == (before, after)
        assert all(state in str(refused.value) for state in _NEXT[before])


@pytest.mark.parametrize("state", LIVED)
def test_the_same_state_again_changes_nothing(state: State) -> None:
    """Its time does not change either."""
    model = in_state(state)

    assert become(model, V, Change(model="m", generation=9, state=state), 5.0) is model


def test_a_rejected_model_cannot_become_champion() -> None:
    """Rejected and rolled-back models must become candidates again first."""
    assert all(State.CHAMPION not in _NEXT[state] for state in (State.REJECTED, State.ROLLED_BACK, State.LOST))


@pytest.mark.parametrize("state", LIVED)
def test_a_model_without_a_record_may_enter_any_state(state: State) -> None:
    """Its history begins there."""
    assert in_state(state).steps == ((state, 1.0),)


def test_a_long_history_keeps_its_last_steps() -> None:
    """Steps are remembered up to their limit."""
    model = in_state(State.CANDIDATE)
    for at in range(2, 2 * _STEPS_MAX):
        state = State.REJECTED if model.state is State.CANDIDATE else State.CANDIDATE
        model = become(model, V, Change(model="m", generation=3, state=state), float(at))

    assert len(model.steps) == _STEPS_MAX
    assert model.steps[-1] == (model.state, model.since)


def test_a_model_has_one_record_per_variant(tmp_path: Path) -> None:
    """The same weights in two lines have two independent records."""

    async def story(world: World) -> None:
        two = [become(None, variant, Change(model="m", generation=1, state=State.CANDIDATE), 1.0) for variant in BOTH]
        async with world.store.begin() as tx:
            await MODELS.put(tx, two)
            assert [await MODELS.all(tx, "variant", variant) for variant in BOTH] == [[model] for model in two]

    play(tmp_path, story)
