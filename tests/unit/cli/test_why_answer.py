"""The first line of why: each cause is the answer where it holds, in the order of the table of causes."""

import pytest

from ringrift.cli.why_answer import _CAUSES, Situation, _Answer, _Failure, answer, find_failures, first_line
from ringrift.cluster.activity import Activity
from ringrift.cluster.roster import NodeRecord
from ringrift.events import data, training, work
from ringrift.events.evaluation import Block
from ringrift.jobs import Play
from ringrift.kernel.settings import Gate
from ringrift.kernel.value import changed
from ringrift.kernel.verdict import Verdict
from ringrift.pipeline.line import Candidate, Challenge, Line, Stage
from ringrift.store.ports import JobRow
from ringrift.work.run_states import BY_RUN, RunState, RunStates
from unit.pipeline.story import blob

V = "hex8_2p"
NOW, SINCE = 10_000.0, 9000.0
LINE = Line(
    variant=V,
    workload="fake",
    players=2,
    stage=Stage.TRAINING,
    since=SINCE,
    champion=blob("c"),
    generation=1,
    iteration=1,
)
NODE = NodeRecord(id="n1", profile="full", address="/n1", beat=1)
FAILURE = _Failure(job="j9", kind="train", error="no such move", attempts=3, time=9500.0)


def job(kind: str, **fields: object) -> JobRow:
    """A job of the line that waits in the queue."""
    blank = JobRow(
        id="j1", kind=kind, variant=V, key="k", body=b"", state="ready", priority=1, node=None, attempts=0, fence=1,
        holder=None, renewals=0, seconds=1.0, pause=0.0, progress=0.0, time=9100.0, error=None,
    )  # fmt: skip
    return changed(blank, **fields)


def paused(scope: str, **fields: object) -> RunStates:
    """One scope that anna has paused."""
    state = changed(RunState(scope=scope, state="paused", by="anna", since=9800.0), **fields)
    return RunStates(by_scope={scope: state})


def closed(gate: str, rule: str, value: float = 0.0, limit: float = 1.0, since: float = 9200.0) -> Verdict:
    """A gate that lets nothing through."""
    return Verdict(gate, False, rule, value, limit, since)


SOUND = Situation(variant=V, now=NOW, line=LINE, nodes=(NODE,), jobs=(job("train", state="claimed", holder="n1"),))
COLLECTS = changed(SOUND, line=changed(LINE, stage=Stage.COLLECTING), jobs=())
SCORES = tuple(Block(number=number, scores=(1.0, 0.5)) for number in range(8))
TEST = Challenge(opponent=blob("c"), gate=Gate(), seed=1, dispatched=400, blocks=SCORES)
EVALUATES = changed(
    SOUND,
    line=changed(LINE, stage=Stage.EVALUATING, candidate=Candidate(model=blob("new"), generation=2, challenge=TEST)),
)

CASES: list[tuple[str, Situation, str]] = [
    (
        "fault",
        changed(SOUND, faults=("store: no room left at /data (0 KiB): free some space",)),
        "waits: store: no room",
    ),
    ("no_line", changed(SOUND, line=None), "has no line yet: it was never run here"),
    (
        "rests",
        changed(SOUND, line=changed(LINE, stage=Stage.RESTING)),
        "rests: the promotions asked for are done, 1 in",
    ),
    ("no_coordinator", changed(SOUND, has_coordinator=False), "waits: no coordinator is running"),
    (
        "brake",
        changed(SOUND, run_states=paused("cluster", reason="disk", until=NOW + 60)),
        "waits: cluster is paused by",
    ),
    (
        "brake",
        changed(SOUND, run_states=paused(f"variant:{V}")),
        f"waits: variant {V} is paused by anna until it is re",
    ),
    ("brake", changed(SOUND, run_states=paused("stage:train")), "waits: stage train is paused by anna"),
    ("brake", changed(EVALUATES, run_states=paused("stage:promote")), "waits: stage promote is paused by anna"),
    (
        "no_workload",
        changed(
            SOUND, jobs=(job("train"),), verdicts=(closed("claim.train", "node n1 cannot run workload fake: no x"),)
        ),
        "waits: node n1 cannot run workload fake: no x",
    ),
    (
        "no_champion",
        changed(SOUND, verdicts=(closed("champion", "no holder of champion answers"),)),
        "waits: no holder",
    ),
    (
        "on_request",
        changed(
            COLLECTS,
            line=changed(COLLECTS.line or LINE, manual_jobs=(Play(variant=V, model="m", games=1),)),
            verdicts=(closed("automatic", "auto-trigger is off: request train to go on"),),
        ),
        "waits: auto-trigger is off: request train to go on",
    ),
    (
        "no_node",
        changed(COLLECTS, nodes=(changed(NODE, profile="coordinator"),)),
        f"waits: no node that can play {V} is r",
    ),
    ("no_node", changed(SOUND, nodes=()), f"waits: no node that can train {V} is running"),
    (
        "no_fit",
        changed(
            SOUND,
            nodes=(NODE, changed(NODE, id="n2"), changed(NODE, id="c", profile="coordinator")),
            jobs=(job("train"),),
            verdicts=(
                closed("claim.train", "node n1 cannot do train jobs: it has no GPU, gpu is needed"),
                closed("claim.train", "node n2 cannot do train jobs: its key lacks the scope train", since=9300.0),
            ),
        ),
        "waits: node n1 cannot do train jobs: it has no GPU, gpu is needed; nor can 1 more",
    ),
    ("failing", changed(SOUND, failures=(FAILURE,)), "waits: training fails: no such move (given up after 3 attempts)"),
    (
        "failing",
        changed(
            SOUND, jobs=(job("train", error="boom", attempts=1),), tracebacks={"j1": 'File "/a/b.py", line 7, in f'}
        ),
        "waits: training fails: boom at b.py:7 (attempt 1; it is tried again)",
    ),
    (
        "failing",
        changed(SOUND, jobs=(job("train", error="boom\n at it", attempts=2, pause=5.0),)),
        "waits: training fails: boom at it (attempt 2; it is tried again)",
    ),
    (
        "refused",
        changed(
            SOUND, jobs=(job("train"),), verdicts=(closed("claim.train", f"training slot of {V}"),), trainers=("job x",)
        ),
        f"waits: training is not started: training slot of {V} is held by job x",
    ),
    (
        "not_filled",
        changed(COLLECTS, disabled=("fill",)),
        "waits: no games are played, because settings turn the daemon fill off",
    ),
    (
        "not_filled",
        changed(COLLECTS, verdicts=(closed("fill", "items wait", 9, 5),)),
        "waits: no games are played: 9 of 5 ",
    ),
    ("test", EVALUATES, f"is testing candidate {blob('new')[:10]}: LLR "),
    (
        "working",
        changed(SOUND, jobs=(job("train", state="claimed", holder="n1", progress=0.45),)),
        "is training: 45% done on",
    ),
    (
        "stage",
        changed(COLLECTS, verdicts=(closed("collecting", "games since the last export", 320, 400),)),
        "is collecting: ",
    ),
]


@pytest.mark.parametrize(("cause", "facts", "text"), CASES, ids=lambda value: value if isinstance(value, str) else "")
def test_each_cause_is_the_answer_where_it_holds(cause: str, facts: Situation, text: str) -> None:
    """In words that begin with what is the matter, and with the variant before them."""
    reply = answer(facts)

    assert (reply.cause, reply.text[: len(text)]) == (cause, text)
    assert first_line(facts, reply).startswith(f"{V} {text}")


@pytest.mark.parametrize("rule", ["run workload fake: no x", "do train jobs: it has no GPU, gpu is needed"])
def test_a_node_that_cannot_is_no_cause_while_another_can(rule: str) -> None:
    """The other one is only busy."""
    verdict = closed("claim.train", f"node n1 cannot {rule}")
    facts = changed(SOUND, jobs=(job("train"),), verdicts=(verdict,), nodes=(NODE, changed(NODE, id="n2")))

    assert answer(facts).cause == "refused"
    assert answer(changed(facts, nodes=(NODE,))).cause in ("no_workload", "no_fit")


def test_every_cause_has_its_case() -> None:
    """A cause that no situation leads to would never be seen."""
    assert {cause for cause, _, _ in CASES} == {find.__name__[1:] for find in _CAUSES}


def test_what_stops_everything_comes_first() -> None:
    """All at once: each answer is the next when the one before it is gone."""
    line = changed(EVALUATES.line or LINE, manual_jobs=(Play(variant=V, model="m", games=1),))
    missing = closed("claim.match", "node n1 cannot run workload fake: no x")
    others = tuple(closed(gate, gate) for gate in ("champion", "automatic", "claim.match"))
    facts = changed(
        EVALUATES,
        line=line,
        faults=("store: no room",),
        nodes=(),
        has_coordinator=False,
        run_states=paused("cluster"),
        verdicts=(missing, *others),
        failures=(changed(FAILURE, kind="match"),),
        jobs=(job("match"),),
    )
    repairs = [
        ("fault", {"faults": ()}),
        ("no_coordinator", {"has_coordinator": True}),
        ("brake", {"run_states": RunStates()}),
        ("no_workload", {"verdicts": others}),
        ("no_champion", {"verdicts": others[1:]}),
        ("on_request", {"verdicts": (closed("claim.match", "x"),)}),
        ("no_node", {"nodes": (NODE,)}),
        ("failing", {"failures": ()}),
        ("refused", {"verdicts": ()}),
    ]
    for cause, repair in repairs:
        assert answer(facts).cause == cause
        facts = changed(facts, **repair)
    assert answer(facts).cause == "test"


def test_a_pause_names_who_until_when_and_why() -> None:
    """The sentence has all of it, and the remedy is the command that ends it."""
    facts = changed(SOUND, run_states=paused("cluster", reason="upgrade", until=NOW + 7200))

    reply = answer(facts)

    assert "paused by anna until 19" in reply.text
    assert reply.text.endswith(": upgrade")
    assert (reply.since, reply.remedy) == (9800.0, "ringrift resume")


def test_a_line_that_a_run_leaves_alone_rests() -> None:
    """No person has braked it: the command is the one that runs it."""
    reply = answer(changed(SOUND, run_states=paused(f"variant:{V}", by=BY_RUN, reason="the run works on others")))

    assert (reply.text, reply.remedy) == ("rests: the run works on others", f"ringrift run --variants {V}")


def test_since_is_that_of_this_wait() -> None:
    """A gate that was closed in an earlier round, too, has been closed since this stage began, not since then."""
    long_ago = closed("fill", "items wait", since=1.0)

    assert answer(changed(COLLECTS, verdicts=(long_ago,))).since == SINCE
    assert answer(changed(COLLECTS, verdicts=(changed(long_ago, since=9500.0),))).since == 9500.0


def test_a_test_is_told_with_its_numbers() -> None:
    """LLR, its bound, blocks, and where it ends otherwise."""
    text = answer(EVALUATES).text

    assert text.startswith(f"is testing candidate {blob('new')[:10]}: LLR ")
    assert " after 8 blocks (rejected at -" in text


def test_one_failure_among_jobs_that_work_is_no_cause() -> None:
    """Of several self-play jobs one has failed: the others go on."""
    jobs = (job("play", error="boom", attempts=1), job("play", id="j2", state="claimed", holder="n1"))

    assert answer(changed(COLLECTS, jobs=jobs)).cause == "stage"


def test_a_job_that_runs_again_says_after_what() -> None:
    """The error of the attempt before, and where to see all of it."""
    jobs = (job("train", state="claimed", holder="n1", error="boom", attempts=2), job("train", id="j2"))

    reply = answer(changed(SOUND, jobs=jobs))

    assert (reply.cause, reply.remedy) == ("working", "ringrift jobs show j1")
    assert reply.text == "is training: 0% done on node n1, attempt 2 after: boom"


def test_a_failure_counts_until_a_success_of_its_kind() -> None:
    """Of this variant alone; the newest failure of each kind is left, with its traceback."""
    buried = work.Buried(variant=V, job="j1", kind="train", key="k", error="a", attempts=3, traceback="File")
    exported = data.Exported(variant=V, samples="s", count=1, batches=(), node="n", job="e")
    other = changed(buried, variant="hex8_3p")
    finished = training.Finished(variant=V, model="m", generation=1, node="n")

    failures = find_failures(enumerate([buried, exported, other, changed(buried, job="j2")]), V)

    assert failures == [_Failure(job="j2", kind="train", error="a", attempts=3, time=3, traceback="File")]
    assert find_failures(enumerate([buried, finished]), V) == []
    assert len(find_failures(enumerate([buried, changed(finished, variant="hex8_3p")]), V)) == 1


def test_an_answer_without_a_time_has_none() -> None:
    """And one with it says when and how long ago."""
    assert first_line(SOUND, _Answer(text="waits: x")) == f"{V} waits: x"
    assert first_line(SOUND, _Answer(text="waits: x", since=NOW - 90)).endswith("(1 min 30 s ago)")


def test_a_node_that_does_nothing_has_no_say() -> None:
    """Daemons that settings forbid count only where every coordinator forbids them."""
    assert answer(changed(COLLECTS, nodes=(changed(NODE, activity=Activity()),))).cause == "stage"
