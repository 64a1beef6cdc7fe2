"""Self-play is kept under way, but never more than can be used."""

import msgspec
import pytest

from ringrift.jobs import ORDINARY, Play
from ringrift.pipeline.line import FRESH_EXPORTS_MAX, Batch, Line, Stage, may_play, top_up
from unit.pipeline.story import POLICY, VARIANT, blob

LIMIT = FRESH_EXPORTS_MAX * POLICY.games_per_export
LINE = Line(
    variant=VARIANT, workload="fake", players=2, stage=Stage.COLLECTING, champion=blob("champion"), generation=0
)


@pytest.mark.parametrize(
    ("fresh", "pending", "allowed"),
    [
        (0, (), True),
        (LIMIT - 1, (), True),
        (LIMIT, (), False),
        (0, (LIMIT,), False),
        (LIMIT - 20, (10, 9), True),
        (LIMIT - 20, (10, 10), False),
    ],
)
def test_games_that_wait_for_export_have_a_limit(fresh: int, pending: tuple[int, ...], allowed: bool) -> None:
    """Copied and uncopied games count alike; beyond the limit new ones would only grow old."""
    batches = tuple(Batch(blob=blob(str(place)), games=games) for place, games in enumerate(pending))
    line = msgspec.structs.replace(LINE, fresh=fresh, pending=batches)

    verdict = may_play(line, POLICY, 7.0)

    assert (verdict.gate, verdict.allowed, verdict.limit, verdict.since) == ("fill", allowed, LIMIT, 7.0)
    assert verdict.value == fresh + sum(pending)


@pytest.mark.parametrize("stage", [stage for stage in Stage if stage not in (Stage.STARTING, Stage.RESTING)])
def test_self_play_runs_in_every_stage_with_a_champion(stage: Stage) -> None:
    """Nodes play on while the line exports, trains and judges."""
    assert may_play(msgspec.structs.replace(LINE, stage=stage), POLICY, 0.0).allowed


def test_without_a_champion_there_is_no_self_play() -> None:
    """There is nothing to play with before generation 0."""
    verdict = may_play(msgspec.structs.replace(LINE, champion=None, generation=-1), POLICY, 0.0)

    assert (verdict.allowed, verdict.rule) == (False, "a champion to play with")


def test_a_resting_line_enqueues_no_games() -> None:
    """A line at rest does not play."""
    policy = msgspec.structs.replace(POLICY, iterations_max=3)
    line = msgspec.structs.replace(LINE, stage=Stage.RESTING, iteration=3)

    verdict = may_play(line, policy, 0.0)

    assert (verdict.allowed, verdict.rule, verdict.value, verdict.limit) == (False, "the line rests", 3, 3)


@pytest.mark.parametrize(("under_way", "missing"), [(0, 2), (1, 1), (2, 0), (5, 0)])
def test_play_jobs_are_topped_up(under_way: int, missing: int) -> None:
    """The missing jobs are enqueued, each with the champion and the games of a batch."""
    line, jobs = top_up(LINE, under_way, POLICY)

    assert len(jobs) == missing
    assert line == msgspec.structs.replace(LINE, plays=missing)
    for job in jobs:
        expected = Play(variant=VARIANT, model=blob("champion"), games=10, seed=job.seed, priority=ORDINARY)
        assert job == expected


def test_no_two_play_jobs_share_a_seed() -> None:
    """Every batch is another batch, for ever, and another policy seed plays other games."""
    line, seeds = LINE, []
    for _ in range(50):
        line, jobs = top_up(line, 0, POLICY)
        seeds += [job.seed for job in jobs]
    _, others = top_up(LINE, 0, msgspec.structs.replace(POLICY, seed=1))

    assert len(set(seeds)) == len(seeds) == line.plays
    assert not {job.seed for job in others} & set(seeds)
