"""Screen: draws the state of every line for a terminal of any size, as pure functions from values to lines of text.

A row is a list of pieces, each with its style, so that it is cut to the width before it is coloured.
"""

import math
from collections.abc import Mapping, Sequence

from ringrift.cli.formats import duration, short
from ringrift.kernel.value import Value
from ringrift.pipeline.line import Line, Stage
from ringrift.pipeline.metrics import LineMetrics

_BLOCKS = "▁▂▃▄▅▆▇█"
_CURVE_MAX = 12  # champions in the small curve, the newest
_BAR = 8
_STYLES = {"": "", "bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_STAGE_STYLES = {Stage.EVALUATING: "yellow", Stage.RESTING: "dim"}
_LEGEND = "Elo: over generation 0, ± 95 % bounds"
_TEST_LEGEND = "; LLR: log likelihood ratio of the test"
_Row = Sequence[tuple[str, str]]  # texts, each with the name of its style


class LineView(Value):
    """One line as the live view shows it."""

    line: Line
    metrics: LineMetrics
    share: float = 0.0  # of its stage that is done
    curve: tuple[float, ...] = ()  # Elo of its champions, the newest last


class Scene(Value):
    """Everything on the screen."""

    phase: str  # what the run does and how long it still lasts
    lines: tuple[LineView, ...] = ()
    brakes: tuple[str, ...] = ()
    failures: Mapping[str, int] = {}  # by kind of job, since the run began


def bar(share: float) -> str:
    """A bar that is as full as *share*."""
    full = round(min(max(share, 0.0), 1.0) * _BAR)
    return "█" * full + "·" * (_BAR - full)


def _sparkline(values: Sequence[float]) -> str:
    """A small curve of the last of *values*; a flat one lies at the bottom."""
    last = [value for value in values if math.isfinite(value)][-_CURVE_MAX:]
    if len(last) < 2:
        return ""
    low, span = min(last), max(last) - min(last)
    return "".join(_BLOCKS[round((value - low) / span * 7) if span else 0] for value in last)


def paint(row: _Row, width: int, *, colour: bool) -> str:
    """*row* cut to *width* columns, with an ellipsis where something is missing."""
    whole = sum(len(text) for text, _ in row)
    left, parts = width if whole <= width else width - 1, []
    for text, style in row:
        text = text[:left]
        left -= len(text)
        parts.append(f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if colour and style and text else text)
    return "".join(parts) + ("" if whole <= width else "…")


def draw(scene: Scene, width: int, height: int, *, colour: bool) -> list[str]:
    """*scene* in lines of at most *width* columns, at most *height* of them: details go first, then whole lines."""
    blocks = [_block(view, width) for view in scene.lines]
    head, foot = [[(brake, "red")] for brake in scene.brakes], _foot(scene)
    room = max(height - len(head) - len(foot), 1)
    if sum(map(len, blocks)) > room:
        blocks = [block[:1] for block in blocks]
    rows = [row for block in blocks for row in block]
    if len(rows) > room:
        rows = [*rows[: room - 1], [(f"… and {len(rows) - room + 1} more lines: ringrift status", "dim")]]
    return [paint(row, width, colour=colour) for row in (*head, *rows, *foot)][:height]


def _foot(scene: Scene) -> list[_Row]:
    pace, busy = sum(view.metrics.games_per_second or 0.0 for view in scene.lines), dict[str, float]()
    for stage, share in (item for view in scene.lines for item in view.metrics.busy.items()):
        busy[stage] = busy.get(stage, 0.0) + share
    shares = ", ".join(f"{stage} {share:.0%}" for stage, share in busy.items() if share >= 0.005)
    cores = f" · cores: {shares}" if shares else ""
    rows: list[_Row] = [[(scene.phase, "bold"), (f" · {pace:.1f} games/s{cores}", "")]]
    if scene.failures:
        kinds = ", ".join(f"{count} {kind}" for kind, count in scene.failures.items())
        rows.append([(f"failed attempts: {kinds}; see  ringrift jobs", "red")])
    is_testing = any(view.metrics.llr is not None for view in scene.lines)
    return [*rows, [(_LEGEND + _TEST_LEGEND * is_testing, "dim")]]


def _elo_text(metrics: LineMetrics) -> str:
    """The Elo of the champion with its bounds, or a dash."""
    elo = metrics.elo
    if elo is None:
        return "—"
    error = max(elo.upper - elo.value, elo.value - elo.lower)
    return f"{elo.value:+.0f} ±{error:.0f}" if error else f"{elo.value:+.0f}"


def _details(metrics: LineMetrics) -> list[tuple[str, str]]:
    """Throughput, losses, the test and remaining times, as far as they are known."""
    point, pace = metrics.training, metrics.games_per_second
    parts = [("— games/s" if pace is None else f"{pace:.1f} games/s", ""), (f"{metrics.games} games", "")]
    if point is not None:
        held_out = "" if point.held_out_loss is None else f" (held out {point.held_out_loss:.3f})"
        parts += [(f"loss {point.loss:.3f}{held_out}", "")] if point.loss is not None else []
        parts += [(f"{point.steps_per_second:.3g} steps/s", "")] if point.steps_per_second is not None else []
    if metrics.llr is not None and metrics.llr_upper is not None and metrics.llr_lower is not None:
        bounds = f"LLR {metrics.llr:.2f} of {metrics.llr_upper:.2f} (rejected at {metrics.llr_lower:.2f})"
        parts.append((f"test: {bounds}, {metrics.blocks} of at most {metrics.blocks_max} blocks", "yellow"))
    if metrics.export_seconds is not None:
        parts.append((f"next export in {duration(metrics.export_seconds)}", ""))
    if metrics.promotion_seconds is not None:
        parts.append((f"next promotion in about {duration(metrics.promotion_seconds)}", ""))
    return parts


def describe_line(view: LineView) -> str:
    """A line in a few words, for where there is no table."""
    line, model = view.line, f"generation {max(view.line.generation, 0)} ({short(view.line.champion)})"
    start = f"{line.variant} {line.stage} {view.share:.0%}, {model}, {_elo_text(view.metrics)} Elo over generation 0"
    return "; ".join([start, *(text for text, _ in _details(view.metrics))])


def _block(view: LineView, width: int) -> list[_Row]:
    """A line in as few rows as the width allows; what is in its first columns lies below that of other lines."""
    line, stage = view.line, _STAGE_STYLES.get(view.line.stage, "green")
    done = f"{bar(view.share)} {min(max(view.share, 0), 1):>4.0%}"
    first = [(f"{line.variant:<12} ", "bold"), (f"{line.stage:<12} {done}", stage)]
    first += [(f"  generation {max(line.generation, 0):<3}", ""), (f" {_elo_text(view.metrics) + ' Elo':<14}", "cyan")]
    rows = [[*first, (f" {_sparkline(view.curve):<{_CURVE_MAX}}".rstrip(" "), "cyan")]]
    for text, style in _details(view.metrics):
        if sum(len(part) for part, _ in rows[-1]) + len(text) + 3 > width:
            rows.append([("    ", ""), (text, style)])
        else:
            rows[-1] += [(" · ", "dim"), (text, style)]
    return list(rows)
