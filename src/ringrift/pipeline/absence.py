"""Files of which no holder answers: they are waited for and shown, and given up only after long patience.

Giving up means that the ledger forgets the holders.  The next job that needs the file fails for good and names it, and
its line goes on as if every holder had answered that the file is gone.
"""

from collections.abc import Mapping, Sequence

from ringrift.events import model
from ringrift.kernel.settings import Policy
from ringrift.kernel.stall_detector import Observation
from ringrift.kernel.verdict import Verdict
from ringrift.pipeline.line import IDLE, Line, needed_models
from ringrift.pipeline.models import Model

CHAMPION_GATE = "champion"  #: The gate that is closed while no holder of the champion answers.
_Change = tuple[Verdict, model.Missing | model.Returned]
_Missing = Mapping[str, Sequence[str]]  #: Blob → its holders, all of which are away.


def observe(missing: _Missing, lines: Sequence[Line], policy: Policy) -> list[Observation]:
    """The *missing* files, each with the patience that the loop has with it."""
    models = {blob for line in lines for blob in needed_models(line)}
    patience = {True: policy.model_away_seconds_max, False: policy.games_away_seconds_max}
    return [Observation(name=blob, counter=0, seconds=patience[blob in models]) for blob in missing]


def champion_change(line: Line, missing: _Missing, before: Verdict | None, at: float) -> _Change | None:
    """The verdict and the event if the champion of *line* is missing now or is back, unlike in the verdict *before*."""
    nodes, champion = tuple(missing.get(line.champion or "", ())), line.champion
    rule = f"no holder of champion {champion:.12} answers: {', '.join(nodes)} away" if nodes else "a holder answers"
    verdict = Verdict(CHAMPION_GATE, not nodes, rule, 0 if nodes else 1, 1, at)
    if champion is None or (verdict.allowed and before is None) or (before is not None and before.rule == rule):
        return None
    if nodes:
        return verdict, model.Missing(variant=line.variant, model=champion, nodes=nodes)
    return verdict, model.Returned(variant=line.variant, model=champion)


def returned(lost: Sequence[Model], holders: _Missing, lines: Sequence[Line]) -> list[model.Returned]:
    """The *lost* models that have *holders* again, of lines that have time to test them."""
    idle = {line.variant for line in lines if line.stage in IDLE}
    return [
        model.Returned(variant=row.variant, model=row.model, node=holders[row.model][0], generation=row.generation)
        for row in lost
        if holders.get(row.model) and row.variant in idle
    ]
