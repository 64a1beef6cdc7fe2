"""Charts: curves lie within their frame, whatever their values are, and their axes have round numbers."""

import re
import xml.etree.ElementTree as tree

import pytest

from ringrift.cli.charts import _HEIGHT, _WIDTH, Curve, Mark, TimeAxis, _ticks, chart
from ringrift.kernel.value import changed

EVIL = "<script>&\"'"


def drawn(*points: tuple[float, float], **more: object) -> tree.Element:
    """The drawing of one curve."""
    curve = changed(Curve(name="one", style="a", points=points), **more)
    return tree.fromstring(chart([curve], ("minutes", "loss")))


@pytest.mark.parametrize(
    "points",
    [(), ((0.0, 0.0),), ((5.0, 5.0), (5.0, 5.0)), ((0.0, -3.0), (9.0, 1e6)), ((-2.0, 1e-9), (1e9, 2e-9))],
)
@pytest.mark.parametrize("steps", [True, False])
def test_everything_lies_within_the_frame(points: tuple[tuple[float, float], ...], steps: bool) -> None:
    """No point, one, equal ones, very large and very small ones."""
    page = tree.tostring(drawn(*points, bounds=tuple((y - 1, y + 1) for _, y in points), steps=steps)).decode()

    for x, y in re.findall(r"(-?[\d.]+),(-?[\d.]+)", " ".join(re.findall(r'points="([^"]*)"', page))):
        assert 0 <= float(x) <= _WIDTH
        assert 0 <= float(y) <= _HEIGHT
    assert "nan" not in page


def test_more_is_higher_and_later_is_further_right() -> None:
    """Along both axes."""
    points = drawn((0.0, 1.0), (1.0, 2.0)).findall("polyline")[0].attrib["points"]

    (x0, y0), (x1, y1) = (map(float, point.split(",")) for point in points.split())
    assert x0 < x1
    assert y0 > y1


def test_steps_hold_until_the_next_point() -> None:
    """And the last one to the right edge."""
    points = drawn((0.0, 1.0), (1.0, 2.0), (4.0, 3.0), steps=True).findall("polyline")[0].attrib["points"]

    ys = [point.split(",")[1] for point in points.split()]
    assert len(ys) == 6
    assert ys[0] == ys[1] != ys[2] == ys[3] != ys[4] == ys[5]


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-7.3, 12.9), (0.0, 1e7), (0.001, 0.0012)])
def test_ticks_are_round_and_few(low: float, high: float) -> None:
    """About five within the range."""
    ticks = _ticks(low, high)

    assert 2 <= len(ticks) <= 7
    assert all(low - 1e-9 <= tick <= high + 1e-9 for tick in ticks)


def test_labels_and_names_are_text() -> None:
    """Whatever they contain."""
    curves = [Curve(name=EVIL, style="a", points=((0.0, 1.0),)), Curve(name="b", style="other", points=((1.0, 1.0),))]

    page = chart(curves, (EVIL, EVIL), [Mark(x=0.0, y=1.0, style="up", label=EVIL)])

    assert "<script>" not in page
    assert [text.text for text in tree.fromstring(page).findall("text")].count(EVIL) == 3


@pytest.mark.parametrize(
    ("seconds", "unit"),
    [(0.0, "seconds"), (119.0, "seconds"), (120.0, "minutes"), (7199.0, "minutes"), (7200.0, "hours"), (1e6, "days")],
)
def test_the_unit_of_time_suits_its_length(seconds: float, unit: str) -> None:
    """So that numbers are neither tiny nor huge."""
    axis = TimeAxis(1000.0, 1000.0 + seconds)

    assert axis.unit == unit
    assert axis.at(1000.0) == 0.0
