"""Models: where each model of a line stands in its life, which steps that life can take, and which one a name means.

    candidate ─▶ evaluating ─▶ champion ─▶ retired
        │             │           ├──────▶ rolled_back
        └─────────────┴─▶ rejected└──────▶ lost

A model that is being trained has no weights yet and so no record; ``training`` is the stage of its line.  A model
becomes champion only by an evaluation that was won, except generation 0, with which a line begins, and one that a
rollback brings back.
"""

from enum import StrEnum
from pathlib import Path

from ringrift.blobs.folder import Folder
from ringrift.cluster.roster import NODES
from ringrift.jobs import Import
from ringrift.kernel.errors import Corrupt, IllegalTransition, InputError, NodeAway, NoRoute, UnknownName
from ringrift.kernel.ids import check_id
from ringrift.kernel.value import Value, changed
from ringrift.pipeline.line import LINES, needed_models
from ringrift.store.ports import Origin, Reads
from ringrift.store.records import Records
from ringrift.sync import ledger
from ringrift.threads import to_its_end

MODEL = "model"  #: The kind of a model's blob.
_STEPS_MAX = 32  #: States of a model's life that are stored; a model is judged again only on an operator's request.
_SHOWN, _PREFIX_SHOWN = 8, 12


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
_NEXT: dict[State, frozenset[State]] = {  #: State → the states that may follow it.
    State.CANDIDATE: frozenset({State.EVALUATING, State.REJECTED, State.CHAMPION, State.LOST}),
    State.EVALUATING: frozenset({State.CHAMPION, State.REJECTED, State.LOST}),
    State.CHAMPION: frozenset({State.RETIRED, State.ROLLED_BACK, State.LOST}),
    State.RETIRED: _AGAIN | {State.CHAMPION},
    State.REJECTED: _AGAIN,
    State.ROLLED_BACK: _AGAIN,
    State.LOST: frozenset({State.CANDIDATE}),
}


class Change(Value, kw_only=False):
    """A model has come to a state."""

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
    steps: tuple[tuple[State, float], ...] = ()  #: States and when they began, the oldest first.

    @property
    def id(self) -> str:
        """Id of its record: one model may belong to several lines."""
        return f"{self.variant}:{self.model}"


MODELS = Records("model", Model, id="id", index=("variant", "state"), order=("generation", "since"), limit=100_000)


class ModelMatch(Value):
    """The one model that a name means."""

    variant: str
    model: str
    record: Model | None = None  #: Its life, if it was ever a candidate.
    imported: bool = False  #: Whether it came from elsewhere.


def become(before: Model | None, variant: str, change: Change, at: float) -> Model:
    """The model after *change*: the same again changes nothing, the first may be any.  Raises IllegalTransition."""
    if before is None:
        before = Model(variant=variant, model=change.model, generation=change.generation, state=change.state, since=at)
    elif change.state is before.state:
        return before
    elif change.state not in _NEXT[before.state]:
        raise IllegalTransition(change.model, before.state, change.state, sorted(_NEXT[before.state]))
    steps = (*before.steps, (change.state, at))[-_STEPS_MAX:]
    return changed(before, state=change.state, since=at, generation=change.generation, steps=steps)


async def resolve(view: Reads, name: str, variant: str | None = None) -> ModelMatch:
    """The model that *name* means: the beginning of a model's name, or a variant for its champion.

    Raises InvalidId, UnknownName, or InputError if several models match or the variant has no champion.
    """
    lines = await LINES.scan(view)
    prefix = lines[name].champion if name in lines else check_id("model", name)
    if prefix is None:
        raise InputError(f"{name} has no champion yet")
    chosen = [line for line in lines.values() if variant in (None, line.variant)]
    records = {(line.variant, m.model): m for line in chosen for m in await MODELS.all(view, "variant", line.variant)}
    used = {(line.variant, model) for line in chosen for model in needed_models(line)}
    # Newest first, so that the first origin of a blob stands.
    made = reversed(await view.list_origins(MODEL, _SHOWN + 1, variant=variant, prefix=prefix))
    origins = {(origin.variant, origin.blob): origin for origin in made}
    matches = sorted(key for key in {*records, *origins, *used} if key[1].startswith(prefix))
    if not matches:
        newest = [origin.blob for origin in await view.list_origins(MODEL, _SHOWN, variant=variant)]
        recent = [model for _, model in list(records)[-_SHOWN:]]
        names = dict.fromkeys(model[:_PREFIX_SHOWN] for model in (*recent, *newest))
        raise UnknownName("model", name, [*names, *(line.variant for line in chosen)])
    if len(matches) > 1:
        some = ", ".join(f"{model[:_PREFIX_SHOWN]} of {of}" for of, model in matches[:_SHOWN])
        more = " and more" if len(matches) > _SHOWN else ""
        raise InputError(f"model {name!r:.80} is ambiguous: {some}{more}")
    [match] = matches
    imported = match in origins and is_imported(origins[match])
    return ModelMatch(variant=match[0], model=match[1], record=records.get(match), imported=imported)


def is_imported(origin: Origin) -> bool:
    """Whether a model came from elsewhere."""
    return origin.job_kind == Import.kind()


async def model_file(view: Reads, model: str) -> Path:
    """The verified file of *model* in a folder of this machine, whether or not its node runs.  Raises NoRoute."""
    nodes = await NODES.get_many(view, sorted(await ledger.holders(view, model)))
    for node in nodes.values():
        try:
            path: Path = await to_its_end(None, Folder(node.address, node.id).open, model)
        except (NodeAway, NoRoute, Corrupt):
            continue
        return path
    raise NoRoute(model, list(nodes), removal=await ledger.removal(view, model))
