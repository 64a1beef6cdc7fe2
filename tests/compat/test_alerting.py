"""The documented alerts, as our alert events, and how bad each is."""

import itertools

import pytest

from compat.ears import Ears, home, on_a_loop
from ringrift.cluster.alerts import LEVELS, Open, judge
from ringrift.events import alert, catalog
from ringrift_compat.alerting import Alert, AlertCategory, AlertSeverity
from ringrift_compat.ambient import ambient
from ringrift_compat.events import get_router

__all__ = ["home"]


@on_a_loop
async def test_an_alert_is_our_alert() -> None:
    """Published, it is an event of ours that opens an alert, with everything that was said; cleared, it ends it."""
    ears = Ears()
    get_router().subscribe("alert.raised", ears.plain)
    trouble = Alert(
        "the disk is full", AlertSeverity.ERROR, AlertCategory.RESOURCE, source="mine", node_id="n1",
        details={"free": 3},
    )  # fmt: skip
    await trouble.publish()
    await trouble.clear("cleaned up")

    [heard] = await ears.until(1)
    assert (heard.source, heard.payload["details"]) == ("mine", {"free": 3})
    raised, cleared = [
        catalog.decode(one.name, one.body)
        for one in await ambient.post(ambient.node().router.recent(20))
        if one.name.startswith("alert.")
    ]
    assert isinstance(raised, alert.Raised)
    assert judge(raised) == (Open(kind="resource", subject="n1", level="severe", detail="the disk is full"),)
    assert cleared == alert.Cleared(kind="resource", subject="n1", detail="cleaned up")


@on_a_loop
async def test_trouble_that_comes_again_is_told_again() -> None:
    """The same words behind a clearing are no repetition, however soon."""
    trouble = Alert("slow", source="mine")
    for say in (trouble.publish, trouble.clear, trouble.publish, trouble.clear):
        await say()

    found = [one.name for one in await ambient.post(ambient.node().router.recent(20))]
    assert found == ["alert.raised", "alert.cleared"] * 2


def test_severities_compare_by_how_bad_they_are() -> None:
    """Their order is that of our levels."""
    severities = list(AlertSeverity)

    assert all(low < high for low, high in itertools.pairwise(severities))
    assert AlertSeverity.CRITICAL >= "error"
    places = [LEVELS.index(one.level) for one in severities]
    assert places == sorted(set(places))


def test_words_will_do() -> None:
    """Severity and category may be given as words; unknown ones raise, and the dictionary has words again."""
    trouble = Alert("slow", "critical", "training", source="trainer")  # type: ignore[arg-type]  # that is the point

    assert (trouble.severity, trouble.category, trouble.about) == (
        AlertSeverity.CRITICAL, AlertCategory.TRAINING, "trainer",
    )  # fmt: skip
    assert (trouble.to_dict()["severity"], trouble.to_dict()["category"]) == ("critical", "training")
    assert trouble.timestamp > 0
    with pytest.raises(ValueError, match="worst"):
        Alert("slow", "worst")  # type: ignore[arg-type]  # that is the point
