"""Models: where each model of a line stands in its life, and which steps that life can take.

    candidate ─▶ evaluating ─▶ champion ─▶ retired
        │             │           ├──────▶ rolled_back
        └─────────────┴─▶ rejected└──────▶ lost

A model that is being trained has no weights yet and so no record; ``training`` is what its line says of it.  Nobody
becomes champion from anywhere but an evaluation that was won, except generation 0, with which a line begins, and one
that a rollback brings back.
"""

from enum import StrEnum

import msgspec

from ringrift.kernel.errors import IllegalTransition
from ringrift.kernel.value import Value

KIND = "model"
STEPS_MAX = 32
"""Of a model's life that are remembered; a model is judged again only by hand."""


class State(StrEnum):
    """Where a model stands."""

    TRAINING = "training"
    CANDIDATE = "candidate"
    EVALUATING = "evaluating"
    CHAMPION = "champion"
    RETIRED = "retired"
    REJECTED = "rejected"
    ROLLED_BACK = "rolled_back"
    LOST = "lost"


_AGAIN = frozenset({State.CANDIDATE, State.LOST})
NEXT: dict[State, frozenset[State]] = {
    State.CANDIDATE: frozenset({State.EVALUATING, State.REJECTED, State.CHAMPION, State.LOST}),
    State.EVALUATING: frozenset({State.CHAMPION, State.REJECTED, State.LOST}),
    State.CHAMPION: frozenset({State.RETIRED, State.ROLLED_BACK, State.LOST}),
    State.RETIRED: _AGAIN | {State.CHAMPION},
    State.REJECTED: _AGAIN,
    State.ROLLED_BACK: _AGAIN,
    State.LOST: frozenset({State.CANDIDATE}),
}
"""State → the states that may follow it."""


class Change(Value):
    """That a model has come to a state."""

    model: str
    generation: int
    state: State


class Model(Value):
    """A model of a line, where it stands, and how it came there."""

    variant: str
    model: str
    generation: int
    state: State
    since: float
    steps: tuple[tuple[State, float], ...] = ()
    """States and when they began, the oldest first."""


def become(known: Model | None, variant: str, change: Change, at: float) -> Model:
    """The model after *change*; the same again changes nothing.  Raises IllegalTransition.

    One that nobody has heard of may come to any state: a store may be older than these records.
    """
    if known is None:
        known = Model(variant=variant, model=change.model, generation=change.generation, state=change.state, since=at)
    elif change.state is known.state:
        return known
    elif change.state not in NEXT[known.state]:
        raise IllegalTransition(change.model, known.state, change.state, sorted(NEXT[known.state]))
    steps = (*known.steps, (change.state, at))[-STEPS_MAX:]
    return msgspec.structs.replace(known, state=change.state, since=at, generation=change.generation, steps=steps)


def key(variant: str, model: str) -> str:
    """The id of a model's record."""
    return f"{variant}:{model}"
