"""Takes, renews and hands over roles."""

from ringrift.cluster.leadership import Roles
from ringrift.supervision.spec import Daemon


async def elect(*, roles: Roles) -> None:
    """Renew what this node holds, take what is free."""
    await roles.elect()


SPEC = Daemon(
    name="elect",
    run=elect,
    every="cluster.elect_seconds",
    after=("beat",),
    profiles=frozenset({"coordinator", "full"}),
    category="core",
    critical=True,
)
