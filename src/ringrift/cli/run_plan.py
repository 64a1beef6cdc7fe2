"""Run plan: everything that is decided before a run begins: its workload, nodes, settings, seed and times."""

import argparse
import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import SystemRandom

from ringrift.cli.line_plans import LinePlan, default_variants, parse_variants, plan_lines
from ringrift.environment import EffectiveSettings, read_settings
from ringrift.harness import Member
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.errors import ChildDied, NotLeader, SettingsError, require_range
from ringrift.kernel.settings import NodeSettings, Policy, Settings, StoreSettings
from ringrift.kernel.value import Value, changed
from ringrift.pipeline.line import LINES, Line, Stage
from ringrift.pipeline.line_settings import LINE_SETTINGS, LineSettings
from ringrift.store.open import only_coordinator, open_store, store_exists
from ringrift.store.ports import Store
from ringrift.store.records import Records
from ringrift.workload import api
from ringrift.workload.api import Preset, Scalar, VariantSpec, Workload
from ringrift.workload.params import own_params
from ringrift.workload.presets import MINUTES_MAX, NODES_MAX, checked_preset
from ringrift.workload.registry import Registry

_FAKE = "fake"
_ITERATIONS = 3  # promotions for each variant where a run has no time limit
_MEASURE_SECONDS_MAX = 120.0
_ID = "run"
_SEED_BITS = 31  # short enough to be typed again
_BATCHES_PER_EXPORT = 4  # of a game that declares its batches
_PRESET, _STORE = "preset", "store"  # origins of settings
RANDOM = "random"  #: The origin of a seed that the next run draws anew.
_RESERVE_SHARE, _RESERVE_SECONDS_MAX = 0.1, 60.0  # of a run, for its proof: it takes 60 to 100 seconds of one core
_LATE_SECONDS_MAX = 120.0  # how much later than its minutes a run may end, with its proof, on a slow machine
_LOOP_SECONDS_MIN = 1.0


@dataclass(frozen=True)
class _Choice:
    """The workload of a run, and a *note* for people on why it is this one."""

    workload: Workload
    note: str = ""

    def preset(self, nodes: int | None = None) -> Preset:
        """Its preset for a local cluster of *nodes* that share the cores of this machine.

        A game without one gets the same care: its nodes share the cores, and batches are as large as it declares.
        Raises SettingsError.
        """
        preset = checked_preset(self.workload, cores=cores(), nodes=nodes)
        if isinstance(self.workload, api.HasPreset) or self.workload.name == _FAKE:
            return preset
        count = min(preset.nodes, cores()) if nodes is None else nodes
        slots = max(cores() // count, 1)
        specs = self.workload.variants()
        settings: dict[str, Scalar] = {"work.slots": min([slots, *(spec.slots for spec in specs if spec.slots)])}
        if games := next((spec.games_per_batch for spec in specs if spec.games_per_batch), 0):
            settings |= {"policy.games_per_batch": games, "policy.games_per_export": _BATCHES_PER_EXPORT * games}
        return replace(preset, settings=settings, nodes=count)

    def settings(self, nodes: int | None = None) -> dict[str, object]:
        """The settings of its preset, and that it is the workload."""
        return {"work.workload": self.workload.name, **self.preset(nodes).settings}

    def requirements(self) -> Sequence[str]:
        return self.workload.requirements if isinstance(self.workload, api.HasRequirements) else ()


def choose_workload(effective: EffectiveSettings, lines: Sequence[Line], registry: Registry | None = None) -> _Choice:
    """The workload of the settings, else of the store's *lines*, else the first that runs here.

    The first are those that come with RingRift, whatever else is installed.  Raises UnknownName, or SettingsError.
    """
    work = effective.settings.work
    registry = registry or Registry.load(work.executables)
    if "work.workload" in effective.origins:
        return _Choice(registry.get(work.workload))
    installed = [name for name in registry.makers if name != _FAKE and name not in work.executables]
    reasons = {name: registry.find_missing(name) for name in installed}
    best = next((name for name, reason in reasons.items() if not reason), _FAKE)
    note = ""
    if best == _FAKE and reasons:
        why = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
        note = f"workload {_FAKE} runs and learns nothing ({why})"
    begun = lines[0].workload if lines else best
    if begun != best:
        note = f"this store was begun with {begun}; set RINGRIFT_HOME for a new one"
        if missing := registry.find_missing(begun):
            note = f"this store was begun with {begun}, which cannot run here: {missing}"
    return _Choice(registry.get(best if registry.find_missing(begun) else begun), note)


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0))


def _measure_params(workload: Workload) -> dict[str, Scalar]:
    """The job parameters that suit this machine best.

    They are measured once for the whole run, so that the same job makes the same blob on every node, and in a child,
    because this process never loads what a workload needs.  Raises ChildDied.
    """
    if not isinstance(workload, api.HasMeasuredParams):
        return {}
    print(f"measuring which parameters of {workload.name} suit this machine …", file=sys.stderr, flush=True)
    command = [sys.executable, "-m", "ringrift.workload.measure", workload.name]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=_MEASURE_SECONDS_MAX)
    except subprocess.TimeoutExpired as error:
        raise ChildDied(f"measuring {workload.name} took longer than {_MEASURE_SECONDS_MAX:g} s") from error
    if ended.returncode:
        raise ChildDied(f"{workload.name} cannot run here: {ended.stderr.strip()[-500:]}")
    params: dict[str, Scalar] = json.loads(ended.stdout)
    return params


class _RunSession(Value):
    """The state that a run leaves to the next one on the same store."""

    seed: int | None = None  # None: no run has left its own
    spent_seconds: float = 0.0  # seconds of its minutes, if it was cut short: the next run has the rest
    seconds: float = 0.0  # all of its minutes; 0: it had no time limit
    variants: tuple[str, ...] = ()  # its lines: the next run goes on with them

    @property
    def left_seconds(self) -> float:
        """What it had left of its minutes when it was cut short; 0 if it was not."""
        return max(self.seconds - self.spent_seconds, 0.0) if self.spent_seconds else 0.0


_SESSIONS = Records("session", _RunSession)


class _Previous(Value):
    """The state of a store before a run begins."""

    lines: tuple[Line, ...] = ()
    session: _RunSession = _RunSession()
    settings: dict[str, LineSettings] = {}  # by variant


async def read_previous(settings: StoreSettings, *, existing: bool = False) -> _Previous:
    """The state of the store of *settings*; empty if there is none.

    Unless it must be *existing*, it is opened as by the node that follows: one that was killed while it created or
    migrated it is no obstacle.
    """
    if not store_exists(settings):
        return _Previous()
    async with open_store(settings, SystemClock(), existing=existing) as store, store.read() as view:
        session = await _SESSIONS.get(view, _ID) or _RunSession()
        lines, rows = tuple(await LINES.all(view)), await LINE_SETTINGS.scan(view)
        return _Previous(lines=lines, session=session, settings=rows)


async def save_session(store: Store, session: _RunSession) -> None:
    """Leave *session* to the next run."""
    async with store.begin() as tx:
        await _SESSIONS.put_at(tx, {_ID: session})


def _choose_seed(
    option: int | None, effective: EffectiveSettings, previous: _Previous, *, is_drawn: bool
) -> tuple[int, str]:
    """The seed and its origin: the store's, else option or setting, else random if it *is_drawn*.

    Raises SettingsError if two differ.
    """
    default, before = effective.settings.policy.seed, previous.session.seed
    seed = default if option is None and "policy.seed" in effective.origins else option
    if seed is not None:
        require_range("--seed", seed, 0, 2**63 - 1)
        if before not in (None, seed):
            raise SettingsError("--seed", seed, f"this store was begun with {before}; set RINGRIFT_HOME for a new one")
        return seed, effective.origins["policy.seed"] if option is None else "command line"
    if before is not None:
        return before, "store"
    # A store that was begun without a session, or the fake, from which nobody learns: the same seed each time.
    is_fixed = previous.lines or not is_drawn
    return (default, "default") if is_fixed else (SystemRandom().getrandbits(_SEED_BITS), RANDOM)


def _run_times(typed: float | None, default: float, session: _RunSession) -> tuple[_RunSession, list[str]]:
    """The session of a run, with its seconds and those that are spent, and a note on what the run before had left.

    *typed* minutes mean what they say; without any the run goes on with the rest of one that was cut short, else it has
    the *default*.  Raises SettingsError.
    """
    if typed is not None:
        require_range("--minutes", typed, 0, MINUTES_MAX)
    left = session.left_seconds
    of = f"{left / 60:.1f} of its {session.seconds / 60:g} minutes left"
    if typed is None and left:
        return session, [f"goes on with the run before, which was stopped with {of}; --minutes begins another"]
    seconds = 60.0 * (default if typed is None else typed)
    note = f"the run before was stopped with {of}; this one has the {typed or 0:g} minutes of --minutes"
    return changed(session, spent_seconds=0.0, seconds=seconds), [note] if left else []


def _loop_times(session: _RunSession) -> tuple[float, float] | tuple[None, None]:
    """Seconds of the loop, and with the proof, in what is left of *session*; None: no limit."""
    if session.seconds == 0:
        return None, None
    left = session.seconds - session.spent_seconds
    reserve = min(_RESERVE_SHARE * session.seconds, _RESERVE_SECONDS_MAX)
    return max(left - reserve, _LOOP_SECONDS_MIN), left + _LATE_SECONDS_MAX


def _promotion_goal(lines: Sequence[Line], variants: Sequence[str], iterations: int) -> int | None:
    """Promotions after which a line rests: a run that was cut short goes on to its end, a finished one starts anew."""
    if iterations < 0:
        raise SettingsError("--iterations", iterations, "must be 0 or more")
    if iterations == 0:
        return None
    resting = [line.iteration for line in lines if line.variant in variants and line.stage is Stage.RESTING]
    is_finished = resting and len(resting) == len(variants)
    return max(resting) + iterations if is_finished else max([iterations, *resting])


@dataclass(frozen=True)
class Plan:
    """Everything that is decided before a run begins."""

    effective: EffectiveSettings  # of the process, and of the lines of the workload that is *chosen*
    nodes: Sequence[Member]
    chosen: _Choice
    lines: Mapping[str, LineSettings]  # by variant
    specs: Mapping[str, VariantSpec]  # by variant, where its workload runs here
    baselines: Mapping[str, Sequence[str]]  # by variant the players of its proof
    notes: Sequence[str]  # for people
    session: _RunSession  # what it begins with, and what the next run gets if it is killed
    loop_seconds: float | None  # None: until it is stopped
    all_seconds: float | None  # the same with the proof

    @property
    def settings(self) -> Settings:
        return self.effective.settings


def require_alone(settings: StoreSettings, node: str) -> None:
    """Raise NotLeader, before anything is measured or created, if another run or node leads the store of *settings*."""
    if not store_exists(settings):
        return
    try:
        with only_coordinator(settings, node):
            return
    except NotLeader as other:
        pid = other.holder.rpartition("process ")[2].rstrip(")")
        advice = "wait until it ends, stop it, or set RINGRIFT_HOME for a store of its own"
        text = f"another run works here (pid {pid}): {advice}"
        raise NotLeader(other.role, other.holder, text) from other


def _members(node: NodeSettings, count: int) -> list[Member]:
    """The nodes of a local cluster: this one, then a training node, then self-play nodes.  Raises SettingsError."""
    require_range("--nodes", count, 1, NODES_MAX)
    profiles = ["training_node", *["selfplay"] * (count - 2)]
    others = [Member(id=f"{node.id}-{n}", profile=profile) for n, profile in enumerate(profiles, 2)]
    return [Member(id=node.id, profile=node.profile, ephemeral=node.ephemeral), *others[: count - 1]]


def _choose_variants(
    options: argparse.Namespace, effective: EffectiveSettings, session: _RunSession, base: _Choice
) -> tuple[tuple[str, ...], str]:
    """The variants of the run and their origin: option or setting, else the last run's, else the workload's."""
    if options.variants is not None:
        return parse_variants(options.variants), "command line"
    defaults, origin = effective.settings.policy.variants, effective.origins.get("policy.variants", _PRESET)
    if origin == _PRESET and session.variants and effective.origins["work.workload"] == _PRESET:
        return session.variants, _STORE
    is_set = "policy.variants" in effective.origins
    return defaults if is_set else default_variants(base.workload.variants(), defaults), origin


def _line_settings(
    plan: LinePlan, policy: Policy, params: Mapping[str, Scalar], before: LineSettings | None
) -> LineSettings:
    """The settings of a line; one whose workload cannot run here keeps those of *before*, but for the goal."""
    if plan.spec is not None:
        return LineSettings(workload=plan.workload, policy=policy, params=dict(params), baselines=plan.spec.baselines)
    if before is None:
        return LineSettings(workload=plan.workload, policy=policy)
    return changed(before, policy=changed(before.policy, iterations_max=policy.iterations_max))


def make_plan(options: argparse.Namespace, overrides: Mapping[str, object], *, is_look: bool = False) -> Plan:
    """The plan of this run, with the origin of every setting; ``config show`` and ``doctor`` print the same one.

    With *is_look* no store is created or migrated.  Raises SettingsError, or UnknownName for a variant or workload.
    """
    effective = read_settings(file=options.settings, overrides=overrides)
    previous = asyncio.run(read_previous(effective.settings.store, existing=is_look))
    return _draw_plan(options, overrides, previous, Registry.load(effective.settings.work.executables))


def _draw_plan(
    options: argparse.Namespace, overrides: Mapping[str, object], previous: _Previous, registry: Registry
) -> Plan:
    read = partial(read_settings, file=options.settings, overrides=overrides)
    base = choose_workload(read(), previous.lines, registry)
    variants, origin = _choose_variants(options, read(preset=base.settings()), previous.session, base)
    plans, notes = plan_lines(variants, previous.lines, registry, base.workload.name)
    choices = {plan.workload: _Choice(registry.get(plan.workload)) for plan in plans.values() if plan.spec}
    # The workload whose preset decides on nodes and times.
    main = base.workload.name if base.workload.name in choices else next(iter(choices))
    count = choices[main].preset().nodes if options.nodes is None else options.nodes
    nodes = _members(read().settings.node, count)
    presets = {name: choice.preset(count) for name, choice in choices.items()}
    own = {name: read(preset=choice.settings(count)) for name, choice in choices.items()}
    session, more = _run_times(options.minutes, presets[main].minutes, previous.session)
    loop_seconds, all_seconds = _loop_times(session)
    iterations = (0 if loop_seconds else _ITERATIONS) if options.iterations is None else options.iterations
    goal = _promotion_goal(previous.lines, variants, iterations)
    seed, seed_origin = _choose_seed(options.seed, own[main], previous, is_drawn=main != _FAKE)
    for name, effective in own.items():
        goals = {"policy.iterations_max": goal} if goal != effective.settings.policy.iterations_max else {}
        effective = effective.overlaid({"policy.variants": variants}, origin).overlaid(goals, "run")
        own[name] = effective.overlaid({"policy.seed": seed}, seed_origin)
    workloads = [choice.workload for choice in choices.values()]
    params = {w.name: own_params(w, own[w.name].settings.work.params, workloads) for w in workloads}
    measured = {w.name: _measure_params(w) for w in workloads}
    more_params = {f"work.params.{name}": value for name, value in measured[main].items() if name not in params[main]}
    lines, specs, baselines = dict[str, LineSettings](), dict[str, VariantSpec](), dict[str, Sequence[str]]()
    for variant, plan in plans.items():
        name, policy = plan.workload, own.get(plan.workload, own[main]).settings.policy
        job_params = {**measured.get(name, {}), **params.get(name, {})}
        line = _line_settings(plan, policy, job_params, previous.settings.get(variant))
        lines[variant] = changed(line, requires=own.get(name, own[main]).settings.work.requires)
        if plan.spec is not None:
            specs[variant], baselines[variant] = plan.spec, plan.proof_baselines(variant, presets[name])
    begun = {line.variant for line in previous.lines}
    if base.note and main == base.workload.name and not begun.issuperset(variants):
        notes.insert(0, base.note)
    if others := sorted(begun.difference(variants)):
        more.append(f"{', '.join(others)}: at rest during this run")
    leaves_seed = loop_seconds is not None or options.seed is not None or main != _FAKE
    session = changed(session, seed=seed if leaves_seed else previous.session.seed, variants=variants)
    effective = own[main].overlaid(more_params, "measured")
    times = (session, loop_seconds, all_seconds)
    return Plan(effective, nodes, choices[main], lines, specs, baselines, [*notes, *more], *times)
