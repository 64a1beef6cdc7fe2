"""Claims: which jobs a node may take now, and the verdicts on what it has to leave in the queue.

One pure function decides, from run states, quarantine, breakers, training slots, stored limits, the workloads that the
node can run, what else it has (:mod:`ringrift.cluster.placement`) and what its key allows.  A claim reads those in its
own transaction, so that no brake that is set before it is overlooked, and stores what it refuses for ``ringrift why``.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from ringrift.cluster.placement import UNKNOWN, Offer, find_misfit, load_offer, missing_workloads
from ringrift.jobs import GAME_KINDS, NODE_KINDS, STAGES, Train
from ringrift.kernel.settings import WorkSettings
from ringrift.kernel.value import Value, changed
from ringrift.kernel.verdict import Verdict
from ringrift.store.ports import ClaimTerms, JobCounter, Lease, Reads, Tx
from ringrift.work import breakers
from ringrift.work.disk_pressure import refused_kinds
from ringrift.work.limits import QUARANTINES, VERDICTS, LineWork, log_verdict
from ringrift.work.run_states import RunStates, load_run_states
from ringrift.work.tasks import LIMITED_KINDS, TASK_KINDS, TRAINING_SLOT, StoredLimits, count, kinds_like, load_limits

_VARIANT = "variant:"
_TYPES = {kind: type for type, kinds in LIMITED_KINDS.items() for kind in kinds}  # whose limit a kind of job shares
_NODE = "claims"  # the index by which the refusals of a node are found
_Place = tuple[Collection[str], int]
_Pair = tuple[str, str]  # a kind and a variant


class _Brakes(Value):
    """What may keep jobs in the queue, as one transaction sees it."""

    run_states: RunStates = RunStates()
    quarantine: Verdict | None = None  # why the node is in quarantine, if it is
    limits: StoredLimits = StoredLimits()  # without a table a node has its slots, and the cluster no limit
    running: Sequence[JobCounter] = ()  # counters of claimed jobs and tasks: at least those of :func:`_counted_kinds`
    closed: Mapping[str, Verdict] = {}  # kind → the refusal of a breaker
    places: tuple[_Place, ...] = ()  # kinds → how many jobs of these kinds breakers let through
    spent: Sequence[str] = ()  # jobs at which the node has used up its tries: others shall try them
    by_variant: Mapping[_Pair, Verdict] = {}  # refusals because of what jobs of a line need
    denied: Mapping[str, str] = {}  # kind → why the node may do no such job


class _ClaimPlan(Value):
    """The kinds that a node may claim, on which terms, and what is refused: whole kinds, or variants of one."""

    kinds: tuple[str, ...]
    terms: ClaimTerms | None
    by_kind: dict[str, Verdict] = {}
    by_variant: dict[_Pair, Verdict] = {}

    def has_refusals(self) -> bool:
        """Whether anything is refused, be it ready or not."""
        return bool(self.by_kind or self.by_variant)

    def refusals(self, ready: Iterable[JobCounter]) -> dict[_Pair, Verdict]:
        """The verdicts on those of the *ready* jobs that are refused, by (kind, variant)."""
        pairs = [(counter.kind, counter.variant) for counter in ready]
        verdicts = {pair: self.by_kind.get(pair[0]) or self.by_variant.get(pair) for pair in pairs}
        return {pair: verdict for pair, verdict in verdicts.items() if verdict is not None}


def _counted_kinds(kinds: Collection[str], limits: StoredLimits) -> frozenset[str]:
    """The kinds whose counters a claim of *kinds* depends on."""
    slots = TRAINING_SLOT if Train.kind() in kinds else frozenset()
    return slots | TASK_KINDS | frozenset(_TYPES) if limits.table else slots


def _plan_claim(brakes: _Brakes, node: str, kinds: Collection[str], now: float) -> _ClaimPlan:
    """Decide which of *kinds* the node may claim at *now*."""
    by_kind: dict[str, Verdict] = {}
    for kind in sorted(kinds):
        gate = f"claim.{kind}"
        state = brakes.run_states.verdict(gate, node=node, stage=STAGES.get(kind, ""), now=now)
        if not state.allowed:
            by_kind[kind] = state
        elif kind in brakes.denied:
            by_kind[kind] = _cannot(node, kind, brakes.denied[kind], now)
        elif brakes.quarantine is not None and kind in GAME_KINDS:
            rule = f"node {node} is in quarantine: {brakes.quarantine.rule}"
            by_kind[kind] = changed(brakes.quarantine, gate=gate, allowed=False, rule=rule)
        elif kind in brakes.closed:
            by_kind[kind] = changed(brakes.closed[kind], gate=gate, allowed=False)
    places = list(brakes.places)
    if brakes.limits.table:
        full, free = _limit(brakes, node, [kind for kind in kinds if kind not in by_kind], now)
        by_kind |= full
        places += free
    allowed = tuple(kind for kind in sorted(kinds) if kind not in by_kind)
    by_variant = _refused_variants(brakes, allowed, now)
    without: dict[str, list[str]] = {}
    for kind, variant in by_variant:
        without.setdefault(kind, []).append(variant)
    alone = (Train.kind(),) if Train.kind() in allowed else ()
    terms = ClaimTerms(without=without, places=tuple(places), one_per_variant=alone, without_jobs=brakes.spent)
    plain = not (without or places or alone or brakes.spent)
    return _ClaimPlan(kinds=allowed, terms=None if plain else terms, by_kind=by_kind, by_variant=by_variant)


def _limit(brakes: _Brakes, node: str, kinds: Collection[str], now: float) -> tuple[dict[str, Verdict], list[_Place]]:
    """The kinds whose limit is reached, and the places that are free for the others."""
    full: dict[str, Verdict] = {}
    places: list[_Place] = []
    for type in dict.fromkeys(_TYPES[kind] for kind in sorted(kinds) if kind in _TYPES):
        alike, limit = kinds_like(type), brakes.limits.table[type]
        rules = [
            (f"jobs and tasks of type {type} on node {node}", count(brakes.running, alike, node=node), limit.node_max),
            (f"jobs and tasks of type {type} in the cluster", count(brakes.running, alike), limit.cluster_max),
        ]
        rule, value, most = min(rules, key=lambda rule: rule[2] - rule[1])
        if value < most:
            places.append((LIMITED_KINDS[type], most - value))
            continue
        for kind in LIMITED_KINDS[type]:
            if kind in kinds:
                full[kind] = Verdict(gate=f"claim.{kind}", allowed=False, rule=rule, value=value, limit=most, since=now)
    return full, places


def _cannot(node: str, kind: str, reason: str, now: float) -> Verdict:
    """The refusal of jobs of *kind* that *node* cannot do, whatever its load."""
    return Verdict(f"claim.{kind}", False, f"{unfit_rule(node)}do {kind} jobs: {reason}", 0, 1, now)


def unfit_rule(node: str) -> str:
    """How the rules begin that keep *node* from jobs until it changes, or they do."""
    return f"node {node} cannot "


def workload_rule(workload: str) -> str:
    """The part of the rule of a node that keeps it from the jobs of *workload*."""
    return f"run workload {workload}"


def slot_rule(variant: str) -> str:
    """The rule that keeps two trainings of *variant* from running at once."""
    return f"training slot of {variant}"


def _refused_variants(brakes: _Brakes, kinds: Sequence[str], now: float) -> dict[_Pair, Verdict]:
    """The variants that are stopped, that are being trained already, or that the node cannot do jobs of."""
    refused = {pair: verdict for pair, verdict in brakes.by_variant.items() if pair[0] in kinds}
    if Train.kind() in kinds:
        variants = {c.variant for c in brakes.running if c.kind in TRAINING_SLOT and c.count > 0 and c.variant}
        for variant in sorted(variants):
            gate, value = f"claim.{Train.kind()}", count(brakes.running, TRAINING_SLOT, variant=variant)
            verdict = Verdict(gate=gate, allowed=False, rule=slot_rule(variant), value=value, limit=1, since=now)
            refused[Train.kind(), variant] = verdict
    for state in brakes.run_states.in_force(now):
        if state.scope.startswith(_VARIANT):
            variant = state.scope.removeprefix(_VARIANT)
            for kind in kinds:
                refused[kind, variant] = brakes.run_states.verdict(f"claim.{kind}", variant=variant, now=now)
    return refused


def _refuse_missing(
    lines: Mapping[str, LineWork], missing: Mapping[str, str], kinds: Iterable[str], node: str, now: float
) -> dict[_Pair, Verdict]:
    """Refusals of the jobs of *lines* whose workload is *missing* on *node*; it moves their files all the same."""
    refusals: dict[_Pair, Verdict] = {}
    for variant, line in lines.items():
        if reason := missing.get(line.workload):
            rule = f"{unfit_rule(node)}{workload_rule(line.workload)}: {reason}"
            for kind in set(kinds) - NODE_KINDS:
                refusals[kind, variant] = Verdict(f"claim.{kind}", False, rule, 0, 1, now)
    return refusals


def _refuse_unfit(
    lines: Mapping[str, LineWork], offer: Offer | None, kinds: Iterable[str], node: str, now: float
) -> dict[_Pair, Verdict]:
    """Refusals of the jobs of *lines* that need what the *offer* of *node* does not have."""
    refusals: dict[_Pair, Verdict] = {}
    for variant, line in lines.items():
        for kind in set(kinds).intersection(line.requires):
            if reason := find_misfit(offer, line.requires[kind]):
                refusals[kind, variant] = _cannot(node, kind, reason, now)
    return refusals


class Fit(Value):
    """What decides which jobs a node can do at all, whatever its load."""

    missing: Mapping[str, str] = {}  # workloads that it cannot run, with the reason
    offer: Offer | None = None  # its report, if that was looked up
    denied: Mapping[str, str] = {}  # kind → why it may do no such job


async def find_fit(
    view: Reads,
    node: str,
    lines: Mapping[str, LineWork],
    kinds: Iterable[str],
    missing: Mapping[str, str] | None,
    lacks: Mapping[str, str],
) -> Fit:
    """What *node* can do: workloads *missing* there as its own process found, None: that of another machine reports.

    *lacks*: kind → the scope that its key would need for such jobs.
    """
    if missing is not None:
        offer = await load_offer(view, node) if any(line.requires for line in lines.values()) else None
        return Fit(missing=missing, offer=offer)
    offer, denied = await load_offer(view, node), {kind: f"its key lacks the scope {lacks[kind]}" for kind in lacks}
    if offer is None or not offer.facts.is_measured:
        denied = {**dict.fromkeys(kinds, UNKNOWN), **denied}
    return Fit(missing=missing_workloads(offer, {line.workload for line in lines.values()}), offer=offer, denied=denied)


async def claim(
    tx: Tx,
    kinds: Collection[str],
    limit: int,
    spent: Sequence[str],
    node: str,
    *,
    settings: WorkSettings,
    now: float,
    lines: Mapping[str, LineWork],
    fit: Fit,
    only: Collection[str] | None = None,
) -> tuple[Sequence[Lease], _ClaimPlan]:
    """Lease up to *limit* jobs of *kinds* for *node*, none of *spent*; with the plan, which says what is refused.

    *lines* say which workload does their jobs and what these need; *fit* says what the node cannot do.
    With *only* it gets none but these jobs, and lines that rest because a run works on others do not keep it from them.
    """
    workloads, limits = {settings.workload, *(line.workload for line in lines.values())}, await load_limits(tx)
    circuits = await breakers.load_breakers(tx, kinds, node, workloads)
    is_alone = len(workloads) == 1
    closed, places = breakers.admit(circuits, kinds, node, settings.workload if is_alone else "")
    by_variant = _refuse_missing(lines, fit.missing, kinds, node, now)
    by_variant |= _refuse_unfit(lines, fit.offer, kinds, node, now)
    for workload in () if is_alone else sorted(workloads):
        refused, more = breakers.admit(circuits, kinds, node, workload)
        variants = [variant for variant, line in lines.items() if line.workload == workload]
        by_variant |= {
            (kind, variant): changed(verdict, gate=f"claim.{kind}", allowed=False)
            for kind, verdict in refused.items()
            for variant in variants
        }
        places = (*places, *(place for place in more if place not in places))
    counted = _counted_kinds(kinds, limits)
    states, reason = await load_run_states(tx), await QUARANTINES.get(tx, node)
    if only is not None:  # a command waits for these jobs and for no other: no run works on them
        states = states.without_rests()
    running = await tx.job_counters("claimed", counted) if counted else ()
    brakes = _Brakes(run_states=states, quarantine=reason, limits=limits, running=running, closed=closed)
    denied = {**await refused_kinds(tx, node, kinds), **fit.denied}
    brakes = changed(brakes, places=places, spent=spent, by_variant=by_variant, denied=denied)
    plan = _plan_claim(brakes, node, kinds, now)
    terms = plan.terms if only is None else changed(plan.terms or ClaimTerms(), only_jobs=only)
    leases = await tx.claim(plan.kinds, node, settings.lease_seconds, limit, terms) if plan.kinds else ()
    if places:
        default = LineWork(workload=settings.workload)
        pairs = [(lease, lines.get(lease.variant, default).workload) for lease in leases]
        await breakers.begin_trials(tx, circuits, pairs)
    return leases, plan


async def store_refusals(tx: Tx, plan: _ClaimPlan, node: str) -> bool:
    """Store what *plan* refuses of the jobs that are ready, and delete what it refuses no more; whether any is left."""
    stored = await VERDICTS.find(tx, _NODE, node)
    kinds = {*plan.by_kind, *(kind for kind, _ in plan.by_variant)}
    ready = await tx.job_counters("ready", kinds) if kinds else ()
    refusals: dict[str, Verdict] = {}
    for (kind, variant), verdict in plan.refusals(ready).items():
        id = f"{variant}:claim.{kind}:{node}"
        refusals[id] = verdict.with_since_of(stored.get(id))
        log_verdict(variant, verdict, stored.get(id), node)
        if refusals[id] != stored.get(id):
            await VERDICTS.put_at(tx, {id: refusals[id]}, {"variant": variant, _NODE: node})
    await VERDICTS.delete(tx, [id for id in stored if id not in refusals])
    return bool(refusals)


async def find_refusals(view: Reads, nodes: Sequence[str]) -> list[str]:
    """The ids of the stored refusals of *nodes*."""
    return list(await VERDICTS.find(view, _NODE, *nodes)) if nodes else []


async def unfit_nodes(view: Reads, kind: str, variant: str, nodes: Collection[str]) -> set[str]:
    """Those of *nodes* that have left jobs of *kind* and *variant* because they cannot do them."""
    ids = {f"{variant}:claim.{kind}:{node}": node for node in nodes}
    stored = await VERDICTS.get_many(view, sorted(ids))
    return {ids[id] for id, verdict in stored.items() if verdict.rule.startswith(unfit_rule(ids[id]))}
