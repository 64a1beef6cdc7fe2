"""The documented daemon classes are views of daemons that are there."""

import asyncio

import pytest

from compat.ears import home
from ringrift_compat import daemon_views
from ringrift_compat.daemon_duties import DUTIES
from ringrift_compat.daemon_manager import get_daemon_manager
from ringrift_compat.daemon_views import CLASSES, DaemonView

__all__ = ["home"]


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_a_class_is_served_only_where_its_duty_is_done(name: str) -> None:
    """A class without a daemon behind it would promise what nobody does."""
    assert DUTIES[CLASSES[name]].kind == "daemon"
    assert issubclass(getattr(daemon_views, name), DaemonView)


def test_a_view_starts_and_stops_the_daemon_of_the_manager() -> None:
    """Who starts it here sees it run there, and two views are one daemon; before its start it is not healthy."""

    async def story() -> None:
        view = daemon_views.UnifiedReplicationDaemon()
        assert not view.health_check()
        assert await view.start()
        other = daemon_views.UnifiedReplicationDaemon.get_instance()
        assert other.is_running
        assert get_daemon_manager().is_running(view.DAEMON)
        assert view.health_check()
        assert other.get_stats()["restarts"] == 0
        assert await other.stop()
        assert not view.is_running
        assert not view.health_check()

    asyncio.run(story())


def test_an_unknown_class_is_not_there() -> None:
    """Nothing is made up."""
    with pytest.raises(AttributeError, match="IdleResourceDaemon"):
        daemon_views.IdleResourceDaemon  # noqa: B018 - the look is what is tested
