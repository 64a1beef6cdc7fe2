"""The documented life of models: views of what each line has written down; nobody changes a model by saying so."""

from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any

from ringrift.kernel.errors import AmbiguousVariant
from ringrift.pipeline.models import Model, State
from ringrift.pipeline.records import lines, models_of
from ringrift_compat.ambient import Embedded, ambient


class ModelState(StrEnum):
    """Where a model stands, in the words of the documents."""

    TRAINING = "training"
    EVALUATING = "evaluating"
    STAGING = "staging"
    PRODUCTION = "production"
    ROLLED_BACK = "rolled_back"
    ARCHIVED = "archived"


WORDS = {
    State.TRAINING: ModelState.TRAINING,
    State.CANDIDATE: ModelState.STAGING,
    State.EVALUATING: ModelState.EVALUATING,
    State.CHAMPION: ModelState.PRODUCTION,
    State.RETIRED: ModelState.ARCHIVED,
    State.REJECTED: ModelState.ARCHIVED,
    State.ROLLED_BACK: ModelState.ROLLED_BACK,
    State.LOST: ModelState.ARCHIVED,
}


@dataclass(frozen=True)
class ModelRecord:
    """A model: its id is the hash of its weights, so that no two models share one."""

    model_id: str
    config_key: str
    generation: int
    state: ModelState
    since: float
    history: tuple[tuple[ModelState, float], ...] = ()
    """States and when they began, the oldest first."""


class ModelLifecycleCoordinator:
    """Tells of every model where it stands; the gates of its line are the only ones that move it."""

    @classmethod
    def get_instance(cls) -> "ModelLifecycleCoordinator":
        """The one of this program."""
        return get_model_lifecycle_coordinator()

    def get_production_model_id(self, config_key: str | None = None) -> str | None:
        """The champion of a variant; without one the only champion there is.  Raises AmbiguousVariant."""
        champions = ambient.call(_champions(ambient.node()))
        if config_key is not None:
            return champions.get(config_key)
        if len(champions) > 1:
            raise AmbiguousVariant(champions)
        return next(iter(champions.values()), None)

    def get_models(self, config_key: str | None = None, state: str | None = None) -> list[ModelRecord]:
        """Every model that came out of training, of one variant or all, in one state or any."""
        wanted = None if state is None else ModelState(state)
        found = ambient.call(_models(ambient.node(), config_key))
        return [one for one in found if wanted is None or one.state is wanted]

    def get_model(self, model_id: str) -> ModelRecord | None:
        """One model, if anybody has heard of it."""
        return next((one for one in self.get_models() if one.model_id == model_id), None)

    def get_model_state(self, model_id: str) -> ModelState | None:
        """Where a model stands, if anybody has heard of it."""
        found = self.get_model(model_id)
        return None if found is None else found.state

    def get_stats(self) -> dict[str, Any]:
        """How many models there are in each state, and the champion of each variant."""
        found = self.get_models()
        return {
            "total_models": len(found),
            "by_state": {state.value: sum(one.state is state for one in found) for state in ModelState},
            "production": ambient.call(_champions(ambient.node())),
        }


async def _champions(node: Embedded) -> dict[str, str]:
    async with node.store.read() as view:
        return {line.variant: line.champion for line in await lines(view) if line.champion is not None}


async def _models(node: Embedded, variant: str | None) -> list[ModelRecord]:
    async with node.store.read() as view:
        variants = [line.variant for line in await lines(view)] if variant is None else [variant]
        return [_record(one) for name in variants for one in await models_of(view, name)]


def _record(one: Model) -> ModelRecord:
    return ModelRecord(
        model_id=one.model, config_key=one.variant, generation=one.generation, state=WORDS[one.state], since=one.since,
        history=tuple((WORDS[state], at) for state, at in one.steps),
    )  # fmt: skip


@cache
def get_model_lifecycle_coordinator() -> ModelLifecycleCoordinator:
    """The one of this program."""
    return ModelLifecycleCoordinator()


def get_production_model_id(config_key: str | None = None) -> str | None:
    """As :meth:`ModelLifecycleCoordinator.get_production_model_id`."""
    return get_model_lifecycle_coordinator().get_production_model_id(config_key)
