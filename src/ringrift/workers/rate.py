"""Rate: the child's side of the job that computes ratings, with our own code whatever the workload is.

What comes out is a pure function of what went in: equal counts make the same report, byte for byte.
"""

from collections.abc import Sequence

import msgspec

from ringrift.evaluation import pairing
from ringrift.evaluation.rating import Rating, fit, rate
from ringrift.evaluation.tally import Player
from ringrift.events.evaluation import Pair, Strength, Summary
from ringrift.kernel.value import Value
from ringrift.pipeline.standing import Asked, never_trains
from ringrift.workload.api import JobContext, JobResult, JobSpec, Refused, Scalar

STRENGTHS_MAX = 128
PAIRS_MAX = 16
"""Of a summary, which must fit into an event."""


class Report(Value):
    """Every rating of a variant, and who is pinned."""

    variant: str
    anchors: tuple[tuple[Player, float], ...]
    ratings: tuple[Rating, ...]


def run(spec: JobSpec, context: JobContext) -> JobResult:
    """Compute what *spec* asks for and publish it as a report.  Raises Refused for an input that is no tally."""
    [blob] = spec.inputs["tally"]
    with context.open_input(blob).open("rb") as file:
        body = file.read()
    try:
        asked = msgspec.json.decode(body, type=Asked)
    except msgspec.DecodeError as bad:
        raise Refused(f"{blob[:12]} holds no counts of blocks: {bad}", blob) from bad
    context.heartbeat(0.0)
    ratings = rate(asked.tally, dict(asked.anchors))
    report = Report(variant=asked.variant, anchors=asked.anchors, ratings=ratings)
    context.heartbeat(0.5, players=len(ratings))
    meta: dict[str, Scalar] = {
        "players": len(ratings),
        "summary": msgspec.json.encode(summary(asked, ratings)).decode(),
    }
    made = context.publish("report", msgspec.json.encode(report), meta)
    return JobResult(outputs=(made,), metrics={"players": len(ratings)})


def summary(asked: Asked, ratings: Sequence[Rating]) -> Summary:
    """What is told of *ratings* at once: the players that *asked* names, and who should meet next."""
    wanted = {*asked.told, *asked.kept}
    shown = [
        one
        for one in ratings
        if one.player.settings == asked.settings and (one.player.weights in wanted or never_trains(one.player.weights))
    ]
    outcomes = [times for meeting in asked.tally.meetings for _, _, times in meeting.outcomes]
    return Summary(
        players=len(ratings), blocks=sum(outcomes), settings=asked.settings, pairs=pairs(asked),
        strengths=tuple(_strength(one) for one in shown[:STRENGTHS_MAX]),
    )  # fmt: skip


def pairs(asked: Asked) -> tuple[Pair, ...]:
    """Whose next block would say most, among those who can still play."""
    everybody = {player for meeting in asked.tally.meetings for player in (meeting.one, meeting.other)}
    fixed = {one for one in everybody if never_trains(one.weights) and one.settings == asked.settings}
    able = fixed | {Player(weights=model, settings=asked.settings) for model in asked.kept}
    groups = fit(asked.tally, dict(asked.anchors))
    # Two that never train may head the list: they are passed over, so that many more are looked at.
    found = pairing.informative(groups, sorted(able), PAIRS_MAX * len(able))
    both = [Pair(one=one.one.weights, other=one.other.weights) for one in found if not {one.one, one.other} <= fixed]
    return tuple(both[:PAIRS_MAX])


def _strength(one: Rating) -> Strength:
    return Strength(
        weights=one.player.weights, settings=one.player.settings, elo=one.elo.value, lower=one.elo.lower,
        upper=one.elo.upper, blocks=one.blocks, anchored=one.reference is None,
    )  # fmt: skip
