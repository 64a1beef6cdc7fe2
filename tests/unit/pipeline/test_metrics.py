"""Every training leaves a point, and the figures of a line are read from a bounded number of rows."""

from pathlib import Path

import pytest

from ringrift.cluster.roster import NODES, NodeRecord
from ringrift.daemons.record_metrics import record_metrics
from ringrift.events.data import Exported
from ringrift.events.training import Finished
from ringrift.kernel.errors import UnknownName
from ringrift.kernel.value import changed
from ringrift.kernel.verdict import Verdict
from ringrift.pipeline.line import Line, Stage
from ringrift.pipeline.metrics import _POINTS_MAX, line_metrics, metric_history, training_of
from ringrift.store.ports import Origin
from ringrift.work.durations import JobRun, record_runs
from ringrift.work.limits import VERDICTS
from unit.pipeline.story import VARIANT, at, blob
from unit.work.world import World, play

LINE = Line(variant=VARIANT, workload="w", players=2, stage=Stage.COLLECTING, champion=blob("zero"), generation=0)
EXPORTED = Exported(variant=VARIANT, samples=blob("samples"), count=9_000, batches=(blob("games"),), node="n")
PARTS = {"policy_loss": 1.5, "value_loss": 0.5, "held_out_policy_loss": 1.75, "held_out_value_loss": 0.75}


def trained(model: str = "one", generation: int = 1, **metrics: float) -> Finished:
    """That a training ended with *model*."""
    event = Finished(variant=VARIANT, model=blob(model), generation=generation, node="n")
    return changed(event, samples=blob("samples"), metrics=metrics)


async def react(world: World, *events: Exported | Finished, seconds: float = 60.0) -> None:
    """Let the daemon read *events*, one after the other."""
    for event in events:
        world.clock.seconds += seconds
        async with world.store.begin() as tx:
            await record_metrics(event, world.envelope(event), tx)


def test_a_training_leaves_one_point_with_all_that_it_reported(tmp_path: Path) -> None:
    """Losses are sums of their parts; positions come from the export, games in the window from the samples' origin."""

    async def story(world: World) -> None:
        await world.keep(LINE)
        async with world.store.begin() as tx:
            origin = Origin(blob=blob("samples"), node="n", kind="samples", variant=VARIANT, games=256)
            await tx.put_origins([origin])
        metrics = {"steps": 100.0, "batch": 90.0, "seconds": 20.0, "my_figure": 7.0, **PARTS}
        await react(world, EXPORTED, trained(**metrics))
        async with world.store.read() as view:
            [point] = await metric_history(view, VARIANT)

        assert (point.model, point.generation, point.number) == (blob("one"), 1, 0)
        assert (point.loss, point.held_out_loss) == (2.0, 2.5)
        assert (point.positions, point.window, point.steps, point.reuse) == (9_000, 256, 100, 1.0)
        assert (point.seconds, point.steps_per_second) == (20.0, 5.0)
        assert point.metrics == metrics

    play(tmp_path, story)


def test_what_a_workload_reports_itself_is_taken_as_it_is(tmp_path: Path) -> None:
    """A loss that is no sum of its parts, its own count of positions, its own speed."""

    async def story(world: World) -> None:
        metrics = {"loss": 9.0, "held_out_loss": 8.0, "positions": 70.0, "reuse": 3.0, "steps_per_second": 2.0}
        await react(world, EXPORTED, trained(**PARTS, **metrics))
        async with world.store.read() as view:
            [point] = await metric_history(view, VARIANT)
        assert (point.loss, point.held_out_loss, point.positions) == (9.0, 8.0, 70)
        assert (point.reuse, point.steps_per_second) == (3.0, 2.0)

    play(tmp_path, story)


def test_a_workload_that_reports_nothing_has_points_all_the_same(tmp_path: Path) -> None:
    """What is not known is None and not 0; and generation 0, which learns from nothing, has no point."""

    async def story(world: World) -> None:
        await react(world, changed(trained("zero", 0), samples=None), trained())
        async with world.store.read() as view:
            [point] = await metric_history(view, VARIANT)
        assert (point.loss, point.held_out_loss, point.reuse, point.seconds) == (None, None, None, None)
        assert (point.positions, point.steps_per_second) == (0, None)

    play(tmp_path, story)


def test_a_curve_has_the_newest_points_in_their_order(tmp_path: Path) -> None:
    """However many there are; and those of another line are not among them."""

    async def story(world: World) -> None:
        other = changed(trained(), variant="hex8_3p")
        await react(world, *(trained(f"m{n}", loss=float(n)) for n in range(12)), other)
        async with world.store.read() as view:
            assert [point.loss for point in await metric_history(view, VARIANT)] == [float(n) for n in range(12)]
            assert [point.loss for point in await metric_history(view, VARIANT, 3)] == [9.0, 10.0, 11.0]
            assert await metric_history(view, "square8_2p") == []
        assert _POINTS_MAX >= 12

    play(tmp_path, story)


def test_the_training_of_a_model_is_found(tmp_path: Path) -> None:
    """In its own line: the same bytes may be a model of another."""

    async def story(world: World) -> None:
        await react(world, trained("one", loss=1.0), trained("two", loss=2.0))
        async with world.store.read() as view:
            point = await training_of(view, VARIANT, blob("one"))
            assert point is not None
            assert point.loss == 1.0
            assert await training_of(view, "hex8_3p", blob("one")) is None
            assert await training_of(view, VARIANT, blob("none")) is None

    play(tmp_path, story)


def test_the_figures_of_a_test_are_those_of_its_gate(tmp_path: Path) -> None:
    """Its LLR with both bounds and its blocks; there are none while no test runs."""

    async def story(world: World) -> None:
        tested = at(Stage.EVALUATING)
        await world.keep(tested.line)
        await world.keep(changed(LINE, variant="hex8_3p"))
        async with world.store.read() as view:
            figures = await line_metrics(view, VARIANT, 0.0)
            others = await line_metrics(view, "hex8_3p", 0.0)
        test = tested.line.candidate and tested.line.candidate.challenge
        assert test is not None
        assert (figures.blocks, figures.blocks_max) == (len(test.blocks), test.gate.blocks_max)
        assert figures.llr is not None
        assert figures.llr_lower is not None
        assert figures.llr_upper is not None
        assert figures.llr_lower < figures.llr < figures.llr_upper
        assert (others.llr, others.llr_upper, others.blocks) == (None, None, 0)

    play(tmp_path, story)


def test_speed_and_load_are_those_of_the_last_minutes(tmp_path: Path) -> None:
    """Games a second, the share of all cores by stage, and how long the next export takes at this speed."""

    async def story(world: World) -> None:
        await world.keep(changed(LINE, fresh=40))
        now = 1_000_000.0
        play_run = JobRun(kind="play", variant=VARIANT, seconds=100.0, size=50, cpu_seconds=80.0)
        train = JobRun(kind="train", variant=VARIANT, seconds=50.0, cpu_seconds=100.0)
        async with world.store.begin() as tx:
            await record_runs(tx, [play_run, train], now)
            verdict = Verdict(Stage.COLLECTING, False, "games since the last export", 40, 100, now)
            await VERDICTS.put_at(tx, {f"{VARIANT}:{Stage.COLLECTING}": verdict})
            nodes = [("a", "one", 2, False), ("b", "one", 2, False), ("c", "two", 2, False), ("d", "gone", 9, True)]
            blank = NodeRecord(id="", profile="full", address="", beat=1)
            facts = [{"id": id, "machine": at, "cores": cores, "gone": gone} for id, at, cores, gone in nodes]
            await NODES.put(tx, [changed(blank, **fact) for fact in facts])
        async with world.store.read() as view:
            figures = await line_metrics(view, VARIANT, now)
        assert figures.games_per_second == pytest.approx(0.5)
        assert figures.busy == pytest.approx({"selfplay": 0.2, "train": 0.5})  # of the four cores of two machines
        assert figures.export_seconds == pytest.approx(120.0)

    play(tmp_path, story)


def test_the_next_promotion_is_estimated_from_the_last_rounds(tmp_path: Path) -> None:
    """Two promotions in ten minutes make one in five, less the time since the last training; none promises nothing."""

    async def story(world: World) -> None:
        await world.keep(LINE)
        events = [trained("a", 1), trained("b", 1), trained("c", 2), trained("d", 3)]
        await react(world, *events[:2], seconds=200.0)
        async with world.store.read() as view:
            assert (await line_metrics(view, VARIANT, world.clock.now())).promotion_seconds is None
        await react(world, *events[2:], seconds=200.0)
        async with world.store.read() as view:
            now = world.clock.now()
            assert (await line_metrics(view, VARIANT, now + 100.0)).promotion_seconds == pytest.approx(200.0)
            assert (await line_metrics(view, VARIANT, now + 999.0)).promotion_seconds == 0.0

    play(tmp_path, story)


def test_a_line_that_does_not_exist_has_no_figures(tmp_path: Path) -> None:
    """The error names the variant."""

    async def story(world: World) -> None:
        async with world.store.read() as view:
            with pytest.raises(UnknownName, match="hex8_4p"):
                await line_metrics(view, "hex8_4p", 0.0)

    play(tmp_path, story)
