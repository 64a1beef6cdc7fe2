"""Breakers of links on a real store: one for each node and transport, timed by the observer of all breakers."""

from contract.engines import Engine
from contract.test_breakers import Cluster
from ringrift.cluster.alerts import Alert, judge
from ringrift.events import node
from ringrift.events.health import BreakerChanged
from ringrift.kernel.transfer_settings import LinkSettings
from ringrift.store.ports import Store
from ringrift.work.breakers import BREAKERS
from ringrift.work.link_breakers import LinkBreakers, link_subjects

LINKS = LinkSettings(failures_max=3, reset_seconds=60.0)
SUBJECT = "link:far/ssh"


def breakers_of(cluster: Cluster) -> LinkBreakers:
    return LinkBreakers(cluster.store, cluster.envelopes("links"), cluster.clock, LINKS)


def test_a_link_that_fails_three_times_is_not_tried_and_other_ways_are(engine: Engine) -> None:
    """Neither another transport to the same node nor the same one to another node pays for it."""

    async def story(store: Store) -> None:
        cluster = Cluster(store)
        links = breakers_of(cluster)
        for _ in range(2):
            await links.report("far", "ssh", "timed out")
        assert await links.allows("far", "ssh")
        await links.report("far", "ssh", "timed out")

        assert not await links.allows("far", "ssh")
        assert await links.allows("far", "rsync")
        assert await links.allows("near", "ssh")
        assert await cluster.changes() == [(SUBJECT, "open")]

    engine.run(story)


def test_a_success_between_failures_forgets_them_and_one_without_any_writes_nothing(engine: Engine) -> None:
    """Failures count in a row."""

    async def story(store: Store) -> None:
        cluster = Cluster(store)
        links = breakers_of(cluster)
        await links.report("far", "ssh", None)
        assert await cluster.states() == {}
        for error in ("a", "b", None, "c", "d"):
            await links.report("far", "ssh", error)

        assert await links.allows("far", "ssh")
        assert await cluster.changes() == []

    engine.run(story)


def test_after_its_time_a_link_is_tried_and_the_next_end_decides(engine: Engine) -> None:
    """A failure opens it for its time again, a success closes it.  A try that never ends keeps nobody out."""

    async def story(store: Store) -> None:
        cluster = Cluster(store)
        links = breakers_of(cluster)
        for _ in range(3):
            await links.report("far", "ssh", "refused")
        await cluster.observe()
        await cluster.observe(59.0)
        assert not await links.allows("far", "ssh")
        await cluster.observe(1.0)
        assert await links.allows("far", "ssh")
        assert await links.allows("far", "ssh")
        await links.report("far", "ssh", "refused")
        assert not await links.allows("far", "ssh")
        await cluster.observe()
        await cluster.observe(60.0)
        await links.report("far", "ssh", None)

        assert await links.allows("far", "ssh")
        states = ["open", "half_open", "open", "half_open", "closed"]
        assert await cluster.changes() == [(SUBJECT, state) for state in states]

    engine.run(story)


def test_an_open_link_is_a_warning_that_ends_with_it_or_with_its_node() -> None:
    """It is no severe one: other ways lead to the file."""
    words = {"before": "closed", "error": "timed out"}
    opened = BreakerChanged(subject=SUBJECT, state="open", failures=3, **words)
    [alert] = judge(opened)
    assert isinstance(alert, Alert)
    assert (alert.kind, alert.subject, alert.level) == ("breaker", SUBJECT, "warning")
    closed = BreakerChanged(subject=SUBJECT, state="closed", failures=3, **words)
    assert judge(closed) == [("breaker", SUBJECT)]
    assert ("breaker", "link:far") in judge(node.Left(node="far"))


def test_every_transport_has_a_subject_of_its_node(engine: Engine) -> None:
    """When a node leaves, the breakers of all ways to it go."""

    async def story(store: Store) -> None:
        cluster = Cluster(store)
        links = breakers_of(cluster)
        for transport in ("ssh", "http"):
            await links.report("far", transport, "refused")
        async with store.begin() as tx:
            await BREAKERS.delete(tx, link_subjects("far"))
        assert await cluster.states() == {}

    engine.run(story)
