"""Takes, renews and hands over roles."""

from ringrift.cluster.leadership import Roles
from ringrift.supervision.spec import COORDINATES, Daemon


async def elect(*, roles: Roles) -> None:
    """Renew what this node holds, take what is free."""
    await roles.elect()


_SECONDS = "cluster.elect_seconds"
SPEC = Daemon(
    name="elect", run=elect, every=_SECONDS, after=("beat",), profiles=COORDINATES, category="core", critical=True
)
