"""The lifecycle of models: views of what each line has recorded; only the gates of a line change a model's state."""

from collections.abc import Iterable

from ringrift.kernel.errors import RingriftError
from ringrift.pipeline.line import LINES
from ringrift.pipeline.models import MODELS, Model
from ringrift.store.ports import Reads
from ringrift_compat.embedded_node import embedded


class AmbiguousVariant(RingriftError):
    """A call without a variant was made, and there are several."""

    def __init__(self, variants: Iterable[str]) -> None:
        self.variants = tuple(sorted(variants))
        super().__init__(f"several variants have a champion: name one of {', '.join(self.variants[:24])}")


class ModelLifecycleCoordinator:
    """The models of this home and their states."""

    @classmethod
    def get_instance(cls) -> "ModelLifecycleCoordinator":
        """A coordinator like any other: all of them read the same store."""
        return cls()

    def get_production_model_id(self, config_key: str | None = None) -> str | None:
        """The champion of a variant; without one the only champion there is.  Raises AmbiguousVariant."""
        return get_production_model_id(config_key)

    def get_models(self, config_key: str | None = None) -> list[Model]:
        """Every model that came out of training, of one variant or of all, with its state and history."""

        async def read(view: Reads) -> list[Model]:
            return await MODELS.all(view, *(("variant", config_key) if config_key else ()))

        return embedded.query(read)


async def _champions(view: Reads) -> dict[str, str]:
    return {line.variant: line.champion for line in await LINES.all(view) if line.champion is not None}


def get_production_model_id(config_key: str | None = None) -> str | None:
    """The champion of a variant; without one the only champion there is.  Raises AmbiguousVariant."""
    champions = embedded.query(_champions)
    if config_key is not None:
        return champions.get(config_key)
    if len(champions) > 1:
        raise AmbiguousVariant(champions)
    return next(iter(champions.values()), None)
