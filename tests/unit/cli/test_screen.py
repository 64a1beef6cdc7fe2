"""The live view fits the screen it is on: what is drawn for lines in every state, narrow and wide."""

import pytest

from ringrift.cli.screen import _BAR, LineView, Scene, _sparkline, bar, describe_line, draw, paint
from ringrift.evaluation.interval import Interval
from ringrift.kernel.value import changed
from ringrift.pipeline.line import Stage
from ringrift.pipeline.metrics import LineMetrics, MetricPoint
from unit.cli.example_report import line

V = "square8_2p"
TRAINING = MetricPoint(
    variant=V, number=3, model="m", generation=2, time=1.0, steps=1000, seconds=4.0, loss=1.9213, held_out_loss=2.0134
)
METRICS = LineMetrics(
    variant=V,
    elo=Interval(value=212.0, lower=181.0, upper=243.0),
    training=TRAINING,
    games=8412,
    games_per_second=12.34,
    busy={"selfplay": 0.61, "train": 0.2},
    export_seconds=32.0,
    promotion_seconds=245.0,
)
TEST = {"llr": 2.1, "llr_lower": -2.94, "llr_upper": 2.94, "blocks": 64, "blocks_max": 400}
COLLECTS = LineView(line=line(V), metrics=METRICS, share=0.25, curve=(0.0, 80.0, 150.0, 212.0))
TESTS = LineView(
    line=changed(line("hex8_3p"), stage=Stage.EVALUATING),
    metrics=changed(METRICS, export_seconds=None, **TEST),
    share=0.16,
)


def scene(*views: LineView, **more: object) -> Scene:
    """A scene of *views*."""
    return changed(Scene(phase="7 min 3 s left", lines=views), **more)


@pytest.mark.parametrize("width", [79, 149])
def test_every_figure_is_on_the_screen(width: int) -> None:
    """Losses, games and steps a second, Elo with bounds and curve, remaining times, the share of the cores."""
    text = "\n".join(draw(scene(COLLECTS, TESTS), width, 40, colour=False))

    for part in ("+212 ±31", "▁▄▆█", "1.921", "2.013", "12.3", "8412", "250", "32 s", "4 min 5 s", "7 min 3 s left"):
        assert part in text, (part, text)
    assert "test: LLR 2.10 of 2.94 (rejected at -2.94), 64 of at most 400 blocks" in text
    assert "24.7 games/s · cores: selfplay 122%, train 40%" in text
    assert "…" not in text, "nothing is cut"


def test_a_wide_screen_needs_fewer_rows() -> None:
    """What fits stands in one row, and the first columns of all lines lie below each other."""
    rows = {width: draw(scene(COLLECTS, TESTS), width, 40, colour=False) for width in (79, 149, 300)}

    assert [len(lines) for lines in rows.values()] == [9, 6, 4]
    first = [text for text in rows[149] if "Elo " in text and "generation 2" in text]
    assert len({text.index("generation 2") for text in first}) == 1
    assert len(first) == 2


@pytest.mark.parametrize("width", [1, 10, 39, 79, 119, 139, 149, 300])
def test_no_line_is_longer_than_the_screen(width: int) -> None:
    """However narrow: what does not fit is cut, with a sign that it is."""
    long = changed(COLLECTS, line=changed(line(V), variant="a_variant_with_a_long_name_2p"))

    lines = draw(scene(long, TESTS, brakes=("BRAKE: " + "x" * 400,)), width, 40, colour=False)

    assert max(map(len, lines)) <= width
    assert lines[0].endswith("…")


@pytest.mark.parametrize("height", [4, 8, 12, 24])
def test_no_more_lines_than_the_screen_has(height: int) -> None:
    """Details go first, then whole lines, and their number is told."""
    many = [changed(COLLECTS, line=changed(line(V), variant=f"v{number}_2p")) for number in range(20)]

    lines = draw(scene(*many, failures={"train": 3}), 79, height, colour=False)

    assert len(lines) <= height
    assert any("more lines: ringrift status" in text for text in lines) == (height < 23)
    assert lines[-2].startswith("failed attempts: 3 train")


def test_only_failures_are_counted_that_there_were() -> None:
    """By kind of job, with the command that lists them."""
    assert not any("failed" in text for text in draw(scene(COLLECTS), 79, 40, colour=False))
    assert "failed attempts: 2 play; see  ringrift jobs" in draw(scene(failures={"play": 2}), 79, 40, colour=False)


def test_a_line_without_figures_shows_none() -> None:
    """Before the first training and the first match nothing is made up."""
    blank = LineView(line=line(V), metrics=LineMetrics(variant=V))

    narrow = "\n".join(draw(scene(blank), 79, 40, colour=False))

    assert "loss" not in narrow
    assert "steps/s" not in narrow
    assert "LLR" not in narrow
    assert " — Elo" in narrow


def test_colour_changes_no_column() -> None:
    """Codes take no room: without them the text is the same, cut at the same place."""
    plain = draw(scene(COLLECTS, TESTS), 60, 40, colour=False)
    coloured = draw(scene(COLLECTS, TESTS), 60, 40, colour=True)

    assert any("\x1b[" in text for text in coloured)
    assert not any("\x1b[" in text for text in plain)
    for code in ("0", "1", "2", "31", "32", "33", "36"):
        coloured = [text.replace(f"\x1b[{code}m", "") for text in coloured]
    assert coloured == plain


def test_a_cut_text_ends_with_its_sign() -> None:
    """Within a piece as between two of them."""
    assert paint([("abc", "red"), ("def", "")], 6, colour=False) == "abcdef"
    assert paint([("abc", "red"), ("def", "")], 5, colour=False) == "abcd…"
    assert paint([("abc", "red"), ("def", "")], 5, colour=True) == "\x1b[31mabc\x1b[0md…"


@pytest.mark.parametrize(
    ("values", "curve"),
    [((), ""), ((1.0,), ""), ((0.0, 10.0), "▁█"), ((5.0, 5.0, 5.0), "▁▁▁"), ((0.0, 5.0, float("nan"), 10.0), "▁▅█")],
)
def test_a_small_curve_goes_from_the_least_to_the_most(values: tuple[float, ...], curve: str) -> None:
    """One point is no curve."""
    assert _sparkline(values) == curve
    assert len(_sparkline(range(100))) == 12


@pytest.mark.parametrize(("part", "full"), [(0.0, 0), (0.5, _BAR // 2), (1.0, _BAR), (7.0, _BAR), (-1.0, 0)])
def test_a_bar_is_as_full_as_its_share(part: float, full: int) -> None:
    """And never longer than it is."""
    assert bar(part) == "█" * full + "·" * (_BAR - full)


def test_a_line_is_described_in_words() -> None:
    """Where there is no table: the same figures in one line."""
    text = describe_line(COLLECTS)

    assert text.startswith(f"{V} collecting 25%, generation 2 (")
    assert "+212 ±31 Elo over generation 0; 12.3 games/s; 8412 games; loss 1.921 (held out 2.013); 250 steps/s" in text
