"""The healer: finds what fails and takes the next step of recovery against it, in one transaction."""

from collections.abc import Iterable

from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.cluster import daemon_commands
from ringrift.cluster import recovery as rules
from ringrift.cluster.recovery import ASK, HEALER, QUARANTINE, RECOVERIES, RESTART_DAEMON, Attempt, Recovery, Trouble
from ringrift.events.daemon import CommandIssued
from ringrift.events.health import RecoveryFinished, RecoveryStarted
from ringrift.kernel.errors import printable
from ringrift.kernel.health import Status
from ringrift.kernel.value import changed
from ringrift.kernel.verdict import Verdict
from ringrift.pipeline.records import save_if_new
from ringrift.pipeline.system_health import CRITICAL_BELOW, HealthFacts, SystemHealth
from ringrift.store.ports import Reads, Tx
from ringrift.work.limits import VERDICTS
from ringrift.work.run_states import CLUSTER, RUNNING, load_run_states, set_run_state

_WORK, _COMMANDS = "work", "run_commands"  # the daemons that run the jobs of a node and the commands to its daemons
_ERROR_CHARACTERS_MAX, _VERDICTS_MAX, _PREFIX = 300, 100, f"{HEALER}:"
_ISSUES_MAX, _REASON_CHARACTERS_MAX = 3, 500  # of the reason of a pause
EVERYWHERE = "*"  #: The variant of verdicts that concern every variant.


def find_troubles(facts: HealthFacts) -> list[Trouble]:
    """What no part heals by itself any more, as supervisor and desk do, each with the steps that are not possible."""
    failed = ((node, row) for node, rows in facts.daemons.items() for row in rows if row.state == "failed")
    troubles = [_trouble(f"daemon:{node}/{row.name}", row.health.reason, _cut_off(facts, node)) for node, row in failed]
    troubles += _node_troubles(facts)
    troubles += [_trouble(f"job:{row.subject}", row.detail) for row in facts.alerts if row.kind == "work_buried"]
    failing = rules.failing_components(facts.errors)
    return troubles + [_trouble(f"component:{name}", report.error) for name, report in failing.items()]


def _node_troubles(facts: HealthFacts) -> list[Trouble]:
    """Nodes whose jobs all fail.  The last healthy one is never quarantined: then nothing would go on."""
    braked = {state.scope.removeprefix("node:") for state in facts.run_states}
    healthy = {node.part for node in facts.nodes if node.status is Status.HEALTHY} - facts.quarantined - braked
    failing = {row.subject.removeprefix("node:"): row for row in facts.breakers if row.subject.startswith("node:")}
    troubles = []
    for node in sorted(failing.keys() & facts.daemons.keys()):
        can_quarantine = node not in facts.quarantined and healthy - failing.keys()
        impossible = () if can_quarantine else (QUARANTINE,)
        troubles.append(_trouble(f"node:{node}", failing[node].error, (*_cut_off(facts, node), *impossible)))
    return troubles


def _cut_off(facts: HealthFacts, node: str) -> tuple[str, ...]:
    """The steps that *node* cannot take because it runs no commands."""
    is_running = any((row.name, row.state) == (_COMMANDS, "running") for row in facts.daemons[node])
    return () if is_running else (RESTART_DAEMON,)


def _trouble(subject: str, error: str, impossible: Iterable[str] = ()) -> Trouble:
    error = printable(error, _ERROR_CHARACTERS_MAX)
    return Trouble(subject=subject, error=error, taken=(*rules.BY_OTHERS, *impossible))


class Healer:
    """Takes steps in one transaction; without *is_acting* it only says which it would take."""

    def __init__(self, tx: Tx, envelopes: EnvelopeFactory, now: float, *, is_acting: bool, steps_left: int) -> None:
        self._tx, self._envelopes, self._now, self._is_acting = tx, envelopes, now, is_acting
        self.steps_left = steps_left

    async def take_step(self, trouble: Trouble, *, is_rested: bool) -> None:
        """Take the next step against *trouble* if it is due."""
        subject = trouble.subject
        before = await RECOVERIES.get(self._tx, subject)
        recovery = before or Recovery(subject=subject, error=trouble.error, since=self._now)
        last = recovery.under_way
        if is_rested and self._is_acting:
            if await self._resume_node(subject, "one job decides whether it works again"):
                recovery, is_rested = changed(recovery, number=recovery.number + 1), False
            elif last is not None and last.step != ASK:
                recovery = await self._settle(recovery, helped=False)
        verdict = rules.judge(trouble, recovery, is_rested=is_rested, steps_left=self.steps_left, now=self._now)
        if verdict.allowed and not self._is_acting:
            advice = f"would {verdict.rule} (cluster.heal = advise): {trouble.error}"
            verdict = changed(verdict, allowed=False, rule=advice)
        elif verdict.allowed and (refusal := await self._carry_out(trouble, verdict.rule, len(recovery.attempts) + 1)):
            verdict = changed(verdict, allowed=False, rule=refusal)
        elif verdict.allowed:
            attempt = Attempt(step=verdict.rule, by=HEALER, time=self._now, detail=trouble.error)
            recovery = recovery.with_attempt(attempt)
            self.steps_left -= attempt.step != ASK
        if recovery != before and recovery.attempts:
            await RECOVERIES.put(self._tx, [recovery])
        await self._save(subject, verdict)

    async def _settle(self, recovery: Recovery, *, helped: bool) -> Recovery:
        """*recovery* with the outcome of its last step, which is published."""
        last, number = recovery.attempts[-1], len(recovery.attempts)
        facts = {"subject": recovery.subject, "step": last.step, "by": last.by, "reason": recovery.error}
        await self._publish(RecoveryFinished(helped=helped, number=number, **facts))
        return recovery.settled(helped)

    async def _carry_out(self, trouble: Trouble, step: str, number: int) -> str:
        """Begin *step*; the reason if another healer acts on its subject now, otherwise empty."""
        kind, _, name = trouble.subject.partition(":")
        node, _, daemon = name.partition("/")
        if step == RESTART_DAEMON:
            daemon = daemon or _WORK
            if any(command.daemon == daemon for command in await daemon_commands.pending(self._tx, node)):
                return f"a command to {daemon} on {node} is under way"
            action = "clear" if kind == "daemon" else "restart"  # a daemon that was given up must be cleared
            command = CommandIssued(daemon=daemon, node=node, action=action, by=HEALER)
            await daemon_commands.issue(self._tx, self._envelopes, command)
        elif step == QUARANTINE:
            # Its results are not in doubt as those of a node that trust quarantines are: it only gets no new jobs.
            state = (await load_run_states(self._tx)).by_scope.get(trouble.subject)
            if state is not None and state.is_in_force(self._now):
                return f"{state} (by {state.by})"
            await self._set_run_state(trouble.subject, "paused", f"its jobs fail: {trouble.error}")
        facts = {"subject": trouble.subject, "step": step, "by": HEALER, "reason": trouble.error}
        await self._publish(RecoveryStarted(number=number, **facts))
        return ""

    async def _resume_node(self, subject: str, reason: str) -> bool:
        """Give jobs to a node again that this healer has paused; a brake that a person set stays."""
        state = (await load_run_states(self._tx)).by_scope.get(subject)
        if state is None or state.by != HEALER:
            return False
        await self._set_run_state(subject, RUNNING, reason)
        return True

    async def _set_run_state(self, scope: str, state: str, reason: str) -> None:
        fields = {"scope": scope, "state": state, "reason": reason, "by": HEALER}
        await set_run_state(self._tx, self._envelopes, **fields, until=None, now=self._now)

    async def brake_loop(self, state: str, health: SystemHealth) -> None:
        """Pause the loop or resume it; a healer that only advises says that it would."""
        if state == RUNNING:
            reason = f"the health score is {health.score:.2f} again"
            await self._forget(CLUSTER)
        else:
            issues = "; ".join(health.reasons()[:_ISSUES_MAX])
            reason = printable(f"the health score is {health.score:.2f}: {issues}", _REASON_CHARACTERS_MAX)
            rule = reason if self._is_acting else f"would pause the loop (cluster.heal = advise): {reason}"
            await self._save(CLUSTER, Verdict("heal cluster", False, rule, health.score, CRITICAL_BELOW, self._now))
        if self._is_acting:
            await self._set_run_state(CLUSTER, state, reason)

    async def end(self, recovery: Recovery) -> None:
        """End *recovery*: its subject is well, so the step that was under way helped."""
        await self._resume_node(recovery.subject, "it is well again")
        last = recovery.under_way
        if last is not None and last.by == HEALER:
            await self._settle(recovery, helped=True)
        await RECOVERIES.delete(self._tx, [recovery.subject])
        await self._forget(recovery.subject)

    async def _save(self, subject: str, verdict: Verdict) -> None:
        """Store *verdict* about *subject* where it says something new."""
        kind, _, name = subject.partition(":")
        variant = name.partition("/")[0] if kind == "job" else EVERYWHERE
        await save_if_new(self._tx, _PREFIX + subject, variant, verdict)

    async def _forget(self, subject: str) -> None:
        """Delete the verdict about *subject*, if there is one."""
        if await VERDICTS.get(self._tx, _PREFIX + subject) is not None:
            await VERDICTS.delete(self._tx, [_PREFIX + subject])

    async def _publish(self, event: RecoveryStarted | RecoveryFinished) -> None:
        await self._tx.append([self._envelopes.make(event, source=HEALER)])


async def load_verdicts(view: Reads) -> list[Verdict]:
    """What the healer decided last about each subject that is not well."""
    verdicts = await VERDICTS.scan(view, _PREFIX, _VERDICTS_MAX)
    return [verdict for id, verdict in verdicts.items() if id.startswith(_PREFIX)]
