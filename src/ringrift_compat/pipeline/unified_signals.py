"""The documented signals of training: the trend of the strength, the urgency of training, and a lost champion.

A view of ``ringrift.pipeline.signals``: every value is the one that the loop itself goes by.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ringrift.kernel.errors import require_name
from ringrift.kernel.settings import Policy
from ringrift.pipeline import signals
from ringrift.pipeline.line import LINES, Line
from ringrift.pipeline.signals import FEEDBACK, Feedback
from ringrift.store.ports import Reads
from ringrift_compat.embedded_host import get_host
from ringrift_compat.embedded_node import embedded


@dataclass(frozen=True)
class TrainingSignals:
    """The signals of one variant."""

    config_key: str
    elo_trend: str
    """``rising`` or ``flat`` if there is no doubt, ``steady`` if there is, ``unknown`` with too few champions."""
    elo_per_hour: tuple[float, float, float] | None
    """The Elo gained in an hour with its lower and upper bound; None with too few champions."""
    urgency: float
    """How soon it should train, 0 to 1: the lower bound, which is what the loop goes by."""
    regression: bool
    """Whether a champion was lately replaced by the one before it, because it was surely weaker."""
    plateau: bool
    """Whether as many candidates in a row did not pass as the policy allows."""
    effects: Mapping[str, float]
    """What the signals change now: setting → amount."""


class UnifiedSignalComputer:
    """Computes the signals of a variant from its line and its ratings, whenever it is called."""

    def compute_signals(self, config_key: str) -> TrainingSignals:
        """The signals of *config_key* now.  Raises UnknownName where that variant is not open."""
        computed = self.compute_all()
        require_name("variant", config_key, computed)
        return computed[config_key]

    def compute_all(self) -> dict[str, TrainingSignals]:
        """The signals of every variant that is open."""
        node = embedded.node()
        policy, now = (get_host(node) or node).settings.policy, node.clock.now()

        async def read(view: Reads) -> dict[str, TrainingSignals]:
            rows = [(line, await FEEDBACK.get(view, line.variant)) for line in await LINES.all(view)]
            return {line.variant: _compute(line, feedback, policy, now) for line, feedback in rows}

        return embedded.query(read)


def _compute(line: Line, stored: Feedback | None, policy: Policy, now: float) -> TrainingSignals:
    feedback = stored or Feedback(variant=line.variant)
    effects, pace = signals.active_effects(feedback.effects, now), feedback.velocity
    return TrainingSignals(
        config_key=line.variant,
        elo_trend=signals.trend(pace),
        elo_per_hour=None if pace is None else (pace.value, pace.lower, pace.upper),
        urgency=signals.urgency(line, feedback, policy, now).lower,
        regression=any(effect.signal == "regression" for effect in effects),
        plateau=signals.plateau(feedback.rejections, policy).certain,
        effects={effect.setting: effect.amount for effect in effects},
    )
