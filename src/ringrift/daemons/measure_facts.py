"""Measures what the machine of this node has, for the heartbeat to report."""

from ringrift.cluster.facts import FactsMeter
from ringrift.supervision.spec import Daemon

_SECONDS = 300.0  # asking a driver costs some tenths of a second


async def measure_facts(*, facts: FactsMeter) -> None:
    """Measure once."""
    await facts.measure()


SPEC = Daemon(name="measure_facts", run=measure_facts, every=_SECONDS, category="resources", store=False)
