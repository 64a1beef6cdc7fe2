"""Reported: a report of a run that never was, with a promotion, a rejection and a proof."""

from ringrift.cli.report import Report
from ringrift.cli.runs import RunRecord
from ringrift.environment import InForce
from ringrift.evaluation.interval import Interval
from ringrift.events.model import Evidence
from ringrift.kernel.settings import Policy
from ringrift.pipeline import proof
from ringrift.pipeline.line import Decision, Line, Stage, _BatchCounts
from ringrift.pipeline.metrics import LineMetrics, MetricPoint
from ringrift.pipeline.proof import Finding
from ringrift.pipeline.ratings import RatedModel
from unit.pipeline.story import blob

EVIL = "<script>alert('x')</script> & co"
WIN = Evidence(blocks=40, score=0.7, llr=3.1, lower=-2.94, upper=2.94, rule="likelihood ratio above the upper bound")
LOSS = Evidence(blocks=64, score=0.49, llr=-3.0, lower=-2.94, upper=2.94, rule="likelihood ratio below the lower bound")


def decisions(variant: str) -> tuple[Decision, ...]:
    """Generation 0, a rejection, and two promotions within ten minutes."""
    rows = ((0, "zero", True, None), (1, "weak", False, LOSS), (1, "one", True, WIN), (2, "two", True, WIN))
    return tuple(
        Decision(
            variant=variant,
            model=blob(f"{variant} {name}"),
            promoted=promoted,
            generation=generation,
            reason=evidence.rule if evidence else EVIL,
            time=1000.0 + 200.0 * place,
            evidence=evidence,
        )
        for place, (generation, name, promoted, evidence) in enumerate(rows)
    )


def line(variant: str) -> Line:
    """What the line of *variant* looks like after that."""
    counts = _BatchCounts(batches=9, games=2304, stored=9, games_kept=2304)
    return Line(
        variant=variant,
        workload="reversi",
        players=int(variant[-2]),
        stage=Stage.COLLECTING,
        iteration=2,
        champion=blob(f"{variant} two"),
        generation=2,
        fresh=192,
        counts=counts,
    )


def findings(variant: str) -> tuple[Finding, ...]:
    """A claim that holds without a game to show for it would be odd: none was played here."""
    claims = proof.claims(variant, line(variant), decisions(variant), Policy(), ("uct:200",))
    return tuple(proof.judge(claim, ()) for claim in claims)


def champions(variant: str) -> tuple[RatedModel, ...]:
    """The Elo of the three champions."""
    rows = [decision for decision in decisions(variant) if decision.promoted]
    return tuple(
        RatedModel(
            model=row.model,
            elo=Interval(value=100.0 * place, lower=90.0 * place, upper=112.0 * place),
            generation=row.generation,
            since=row.time,
        )
        for place, row in enumerate(rows)
    )


def trainings(variant: str) -> tuple[MetricPoint, ...]:
    """Three trainings, each better than the one before."""
    return tuple(
        MetricPoint(
            variant=variant,
            number=number,
            model=blob(f"{variant} {number}"),
            generation=number + 1,
            time=1100.0 + 150.0 * number,
            games=300 * (number + 1),
            positions=5000,
            reuse=2.5,
            steps=100,
            seconds=4.0,
            loss=2.0 - 0.25 * number,
            held_out_loss=2.125 - 0.25 * number,
        )
        for number in range(3)
    )


def runs() -> tuple[RunRecord, ...]:
    """A run before this one, and this one, with settings that others may have written."""
    settings = {
        "work.params.note": InForce(value=EVIL, origin="command line"),
        "work.slots": InForce(value=1, origin="default"),
    }
    first = RunRecord(id="r1", number=1, began=100.0, pid=1, seed=4711, variants=(), ended=700.0, seconds=600.0)
    return (first, RunRecord(id="r2", number=2, began=1000.0, pid=2, seed=4711, variants=(), settings=settings))


def report(*variants: str, proof: tuple[Finding, ...] = ()) -> Report:
    """The report of a run of *variants*."""
    about = {"begun": 1000.0, "ended": 1630.0, "workload": "reversi", "seed": 4711, "variants": list(variants)}
    about |= {"gate": "a test", "cores": 2, "params": {"threads": 1, "note": EVIL}, "store": "/home/x.db"}
    about |= {"machine": "Linux x86_64", "versions": {"python": "3.11"}}
    return Report(
        about=about,
        lines=tuple(line(variant) for variant in variants),
        decisions={variant: decisions(variant) for variant in variants},
        proof=proof,
        elo={variant: champions(variant) for variant in variants},
        trainings={variant: trainings(variant) for variant in variants},
        figures={
            variant: LineMetrics(
                variant=variant,
                games_per_second=2.0,
                window=768,
                busy={"selfplay": 0.6},
                training=trainings(variant)[-1],
            )
            for variant in variants
        },
        runs=runs(),
    )
