"""Run plan: everything that is decided before a run begins: its workload, nodes, settings, seed and times."""

import argparse
import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import SystemRandom

from ringrift.cli.command import store_exists
from ringrift.cli.environment import EffectiveSettings, read_settings
from ringrift.harness import Member
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.errors import ChildDied, SettingsError, require_range
from ringrift.kernel.settings import NodeSettings, Settings, StoreSettings
from ringrift.kernel.value import Value, changed
from ringrift.pipeline.line import LINES, Line, Stage
from ringrift.store.open import open_store
from ringrift.store.ports import Store
from ringrift.store.records import Records
from ringrift.workload.api import HasMeasuredParams, HasRequirements, Preset, Workload, missing_requirements, preset_of
from ringrift.workload.registry import Registry

_FAKE = "fake"
_NODES_MAX = 64
_ITERATIONS = 3  # promotions for each variant where a run has no time limit
_MEASURE_SECONDS_MAX = 120.0
_ID = "run"
_SEED_BITS = 31  # short enough to be typed again
_MINUTES_MAX = 7 * 24 * 60.0
_RESERVE_SHARE, _RESERVE_SECONDS_MAX = 0.1, 60.0  # of a run, for its proof: it takes 60 to 100 seconds of one core
_LATE_SECONDS_MAX = 120.0  # how much later than its minutes a run may end, with its proof, on a slow machine
_LOOP_SECONDS_MIN = 1.0


@dataclass(frozen=True)
class _Choice:
    """The workload of a run, and a *note* for people on why it is this one."""

    workload: Workload
    note: str = ""

    def preset(self, nodes: int | None = None) -> Preset:
        """Its preset for a local cluster of *nodes* that share the cores of this machine."""
        return preset_of(self.workload, cores=cores(), nodes=nodes)

    def settings(self, nodes: int | None = None) -> dict[str, object]:
        """The settings of its preset, and that it is the workload."""
        return {"work.workload": self.workload.name, **self.preset(nodes).settings}

    def requirements(self) -> Sequence[str]:
        return self.workload.requirements if isinstance(self.workload, HasRequirements) else ()


def choose_workload(effective: EffectiveSettings, lines: Sequence[Line], registry: Registry | None = None) -> _Choice:
    """The workload of the settings, else of the store's *lines*, else the first that runs here.  Raises UnknownName."""
    work = effective.settings.work
    registry = registry or Registry.load(work.executables)
    if "work.workload" in effective.origins:
        return _Choice(registry.get(work.workload))
    installed = (name for name in registry.makers if name != _FAKE and name not in work.executables)
    best, note = registry.get(next(installed, _FAKE)), ""
    if missing := missing_requirements(best):
        install = best.install_command if isinstance(best, HasRequirements) else "see its documentation"
        note = f"workload {_FAKE} runs instead and learns nothing; install: {install}"
        best, note = registry.get(_FAKE), f"{', '.join(missing)} not installed: {note}"
    if lines and lines[0].workload != best.name:
        note = f"this store was begun with {lines[0].workload}; set RINGRIFT_HOME for a new one"
        best = registry.get(lines[0].workload)
    return _Choice(best, note)


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0))


def _with_measured_params(settings: Settings, workload: Workload) -> Settings:
    """*settings* with the job parameters that suit this machine best; parameters that are set stay.

    They are measured once for the whole run, so that the same job makes the same blob on every node, and in a child,
    because this process never loads what a workload needs.  Raises ChildDied.
    """
    if not isinstance(workload, HasMeasuredParams):
        return settings
    command = [sys.executable, "-m", "ringrift.workload.measure", workload.name]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=_MEASURE_SECONDS_MAX)
    except subprocess.TimeoutExpired as error:
        raise ChildDied(f"measuring {workload.name} took longer than {_MEASURE_SECONDS_MAX:g} s") from error
    if ended.returncode:
        raise ChildDied(f"{workload.name} cannot run here: {ended.stderr.strip()[-500:]}")
    params = {**json.loads(ended.stdout), **settings.work.params}
    return changed(settings, work=changed(settings.work, params=params))


class RunSession(Value):
    """The state that a run leaves to the next one on the same store."""

    seed: int | None = None  # None: no run has left its own
    spent_seconds: float = 0.0  # seconds of its minutes, if it was cut short: the next run has the rest


_SESSIONS = Records("session", RunSession)


class _Previous(Value):
    """The state of a store before a run begins."""

    lines: tuple[Line, ...] = ()
    session: RunSession = RunSession()


async def read_previous(settings: StoreSettings) -> _Previous:
    """The state of the store of *settings*; empty if there is none.

    It opens the store as the node does that follows: one that was killed while it created or migrated it is no obstacle.
    """
    if not store_exists(settings):
        return _Previous()
    async with open_store(settings, SystemClock()) as store, store.read() as view:
        session = await _SESSIONS.get(view, _ID) or RunSession()
        return _Previous(lines=tuple(await LINES.all(view)), session=session)


async def save_session(store: Store, session: RunSession) -> None:
    """Leave *session* to the next run."""
    async with store.begin() as tx:
        await _SESSIONS.put_at(tx, {_ID: session})


def _choose_seed(option: int | None, effective: EffectiveSettings, previous: _Previous, *, timed: bool) -> int:
    """The seed: the store's, else option or setting, else random if *timed*.  Raises SettingsError if two differ."""
    default, before = effective.settings.policy.seed, previous.session.seed
    seed = default if option is None and "policy.seed" in effective.origins else option
    if seed is not None:
        require_range("--seed", seed, 0, 2**63 - 1)
        if before not in (None, seed):
            raise SettingsError("--seed", seed, f"this store was begun with {before}; set RINGRIFT_HOME for a new one")
        return seed
    if before is not None:
        return before
    # A store that was begun without a session, or a run that ends by promotions: the same seed each time.
    return default if previous.lines or not timed else SystemRandom().getrandbits(_SEED_BITS)


def _run_times(minutes: float, previous: _Previous) -> tuple[float, float] | tuple[None, None]:
    """Seconds of the loop, and with the proof, in what is left of *minutes*; None: no limit.  Raises SettingsError."""
    require_range("--minutes", minutes, 0, _MINUTES_MAX)
    if minutes == 0:
        return None, None
    seconds, spent = 60.0 * minutes, previous.session.spent_seconds
    left = seconds - spent if spent < seconds else seconds
    reserve = min(_RESERVE_SHARE * seconds, _RESERVE_SECONDS_MAX)
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

    effective: EffectiveSettings
    nodes: Sequence[Member]
    chosen: _Choice
    loop_seconds: float | None  # None: until it is stopped
    all_seconds: float | None  # the same with the proof
    spent_seconds: float
    has_session: bool  # whether the next run on this store goes on with this one

    @property
    def settings(self) -> Settings:
        return self.effective.settings


def _members(node: NodeSettings, count: int) -> list[Member]:
    """The nodes of a local cluster: this one, then a training node, then self-play nodes.  Raises SettingsError."""
    require_range("--nodes", count, 1, _NODES_MAX)
    profiles = ["training_node", *["selfplay"] * (count - 2)]
    others = [Member(id=f"{node.id}-{n}", profile=profile) for n, profile in enumerate(profiles, 2)]
    return [Member(id=node.id, profile=node.profile, ephemeral=node.ephemeral), *others[: count - 1]]


def make_plan(options: argparse.Namespace, overrides: Mapping[str, object]) -> Plan:
    """The plan of this run.  Raises UnknownName for an unknown variant or workload, SettingsError."""
    effective = read_settings(file=options.settings, overrides=overrides)
    previous = asyncio.run(read_previous(effective.settings.store))
    chosen = choose_workload(effective, previous.lines)
    nodes = _members(effective.settings.node, chosen.preset().nodes if options.nodes is None else options.nodes)
    defaults = chosen.preset(len(nodes))
    effective = read_settings(file=options.settings, overrides=overrides, preset=chosen.settings(len(nodes)))
    work = effective.settings.work
    registry = Registry.load(work.executables, prefer=work.workload)
    variants = tuple(options.variants.split(",")) if options.variants else effective.settings.policy.variants
    for variant in variants:
        registry.owner(variant, work.workload)
    loop_seconds, all_seconds = _run_times(defaults.minutes if options.minutes is None else options.minutes, previous)
    default_goal = 0 if loop_seconds else _ITERATIONS
    goal = _promotion_goal(previous.lines, variants, default_goal if options.iterations is None else options.iterations)
    seed = _choose_seed(options.seed, effective, previous, timed=defaults.minutes > 0)
    policy = changed(effective.settings.policy, variants=variants, iterations_max=goal, seed=seed)
    settings = _with_measured_params(changed(effective.settings, policy=policy), chosen.workload)
    has_session = loop_seconds is not None or options.seed is not None
    times = (loop_seconds, all_seconds, previous.session.spent_seconds)
    return Plan(replace(effective, settings=settings), nodes, chosen, *times, has_session)
