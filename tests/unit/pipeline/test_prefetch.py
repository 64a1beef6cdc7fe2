"""Which models nodes should have before a job names them."""

from ringrift.cluster.peers import PeerRecord, Spread
from ringrift.pipeline.line import Candidate, Line, Stage
from ringrift.pipeline.prefetch import spread_text, wanted_models


def line(variant: str, champion: str | None, candidate: str | None = None, stage: Stage = Stage.COLLECTING) -> Line:
    """A line with these models."""
    row = Candidate(model=candidate, generation=1) if candidate else None
    return Line(variant=variant, workload="fake", players=2, champion=champion, candidate=row, stage=stage)


def test_champions_and_candidates_are_wanted_the_rarest_first() -> None:
    """Those of lines that rest are not; a model of two lines is wanted once."""
    lines = [
        line("a", "m1", "m2"),
        line("b", "m3"),
        line("c", "m4", stage=Stage.RESTING),
        line("d", None),
        line("e", "m3"),
    ]
    peers = [PeerRecord(node="w1", ready={"m1": 1.0, "m3": 1.0, "m9": 1.0}), PeerRecord(node="w2", ready={"m1": 2.0})]

    assert wanted_models(lines, peers) == ["m2", "m3", "m1"]
    assert wanted_models([], peers) == []


def test_a_spread_is_told_to_people() -> None:
    """With the time once it is known."""
    assert spread_text(Spread(nodes=20, ready=19, p95_seconds=12.34)) == "19 of 20 nodes have it, 95 % after 12.3 s"
    assert spread_text(Spread(nodes=20, ready=3)) == "3 of 20 nodes have it"
    assert spread_text(Spread(nodes=0, ready=0)) == "no node that plays is here"
