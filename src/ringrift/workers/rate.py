"""Computes ratings in a worker, whatever the workload is: equal counts make the same report, byte for byte."""

from collections.abc import Sequence

import msgspec

from ringrift.evaluation import pairing
from ringrift.evaluation.rating import Group, Rating, fit, rate
from ringrift.evaluation.tally import Player
from ringrift.events.evaluation import Pair, Strength, Summary
from ringrift.kernel.value import Value
from ringrift.pipeline.ratings import RatingInput, is_baseline
from ringrift.workload.api import JobContext, JobResult, JobSpec, Refused, Scalar

_STRENGTHS_MAX, _PAIRS_MAX = 128, 16  #: Size of a summary, which must fit into an event.


class _RatingReport(Value):
    """Every rating of a variant, and the players whose ratings are fixed."""

    variant: str
    anchors: tuple[tuple[Player, float], ...]
    ratings: tuple[Rating, ...]


def run(spec: JobSpec, context: JobContext) -> JobResult:
    """Compute the ratings of *spec* and publish them as a report.  Raises Refused for an input that is no tally."""
    [blob] = spec.inputs["tally"]
    with context.open_input(blob).open("rb") as file:
        body = file.read()
    try:
        counts = msgspec.json.decode(body, type=RatingInput)
    except msgspec.DecodeError as error:
        raise Refused(f"{blob[:12]} holds no counts of blocks: {error}", blob) from error
    context.heartbeat(0.0)
    groups = fit(counts.tally, dict(counts.anchors))
    ratings = rate(groups)
    report = _RatingReport(variant=counts.variant, anchors=counts.anchors, ratings=ratings)
    context.heartbeat(0.5, players=len(ratings))
    summary = msgspec.json.encode(_summary(counts, groups, ratings)).decode()
    meta: dict[str, Scalar] = {"players": len(ratings), "summary": summary}
    artifact = context.publish("report", msgspec.json.encode(report), meta)
    return JobResult(outputs=(artifact,), metrics={"players": len(ratings)})


def _summary(counts: RatingInput, groups: Sequence[Group], ratings: Sequence[Rating]) -> Summary:
    """The ratings of the players that *counts* names and of baselines, and the pairs that should play next."""
    names, settings = {*counts.summarized, *counts.playable}, counts.settings
    own = [rating for rating in ratings if rating.player.settings == settings]
    listed = [rating for rating in own if rating.player.weights in names or is_baseline(rating.player.weights)]
    strengths = tuple(_strength(rating) for rating in listed[:_STRENGTHS_MAX])
    blocks = sum(times for meeting in counts.tally.meetings for _, _, times in meeting.outcomes)
    pairs = _pairs(counts, groups)
    return Summary(players=len(ratings), blocks=blocks, settings=settings, pairs=pairs, strengths=strengths)


def _pairs(counts: RatingInput, groups: Sequence[Group]) -> tuple[Pair, ...]:
    """The pairs whose next block tells most, among the players that can still play."""
    players = {player for meeting in counts.tally.meetings for player in (meeting.one, meeting.other)}
    fixed = {player for player in players if is_baseline(player.weights) and player.settings == counts.settings}
    able = fixed | {Player(weights=model, settings=counts.settings) for model in counts.playable}
    # Two that never train may head the list: they are passed over, so that many more are looked at.
    ranked = pairing.informative(groups, sorted(able), _PAIRS_MAX * len(able))
    open_pairs = [pair for pair in ranked if not {pair.one, pair.other} <= fixed]
    return tuple(Pair(one=pair.one.weights, other=pair.other.weights) for pair in open_pairs[:_PAIRS_MAX])


def _strength(rating: Rating) -> Strength:
    player, anchored = rating.player, rating.reference is None
    elo = {"elo": rating.elo.value, "lower": rating.elo.lower, "upper": rating.elo.upper}
    return Strength(weights=player.weights, settings=player.settings, blocks=rating.blocks, anchored=anchored, **elo)
