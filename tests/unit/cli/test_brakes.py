"""Pause, drain, stop and resume from the command line: what they store, what they print, and who reads it."""

import re
from pathlib import Path

import pytest

from ringrift.cli.brakes import _seconds
from ringrift.cli.command import Output
from ringrift.cli.live import describe_event
from ringrift.events.work import RunStateChanged
from ringrift.jobs import LOOP_STAGES, Play, Train
from ringrift.kernel.errors import RingriftError, SettingsError, UnknownName
from ringrift.kernel.value import changed
from ringrift.pipeline.line import Stage
from ringrift.work.run_states import RunState, expire_run_states, load_run_states
from ringrift.work.tasks import HostTick, Task, end_tasks
from unit.cli.command_output import ask, context
from unit.pipeline.story import VARIANT, at, blob
from unit.work.world import World, play

STATES = {("pause",): "paused", ("drain",): "draining", ("stop",): "stopped", ("stop", "--now"): "emergency"}
SCOPES = {
    (): "cluster",
    ("--node", "n1"): "node:n1",
    ("--variant", VARIANT): f"variant:{VARIANT}",
    ("--stage", "train"): "stage:train",
}


async def ask_in(world: World, *words: str) -> Output:
    """The output of a command at the time of *world*."""
    return await ask(world.store, *words, clock=world.clock)


async def in_force(world: World) -> dict[str, RunState]:
    """Every run state in force, by scope."""
    async with world.store.read() as view:
        return {state.scope: state for state in (await load_run_states(view)).in_force(world.clock.now())}


async def prepare(world: World) -> None:
    """A node, a line, and a running and a waiting job of it."""
    await world.beat("n1")
    await world.keep(at(Stage.COLLECTING).line)
    train = Train(variant=VARIANT, generation=1, samples=blob("s"), parent=blob("m"))
    await world.claim(train, node="n1")
    await world.desk().enqueue([Play(variant=VARIANT, model=blob("m"), games=5)])


@pytest.mark.parametrize("words", STATES, ids=" ".join)
@pytest.mark.parametrize("scope", SCOPES, ids=" ".join)
def test_a_brake_is_stored_with_who_why_and_how_to_resume(
    tmp_path: Path, words: tuple[str, ...], scope: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each command on each scope stores one state, and prints what happens to the jobs and how to resume."""
    monkeypatch.setenv("LOGNAME", "anna")

    async def story(world: World) -> None:
        await prepare(world)

        output = await ask_in(world, *words, *scope, "--reason", "disk full")

        [state] = (await in_force(world)).values()
        facts = (state.scope, state.state, state.by, state.reason, state.until)
        assert facts == (SCOPES[scope], STATES[words], "anna", "disk full", None)
        assert (output.code, output.value["before"], output.value["running"]) == (0, "running", {"train": 1})
        assert " ".join(("ringrift resume", *scope)) in output.text
        assert ("killed after 60 s" in output.text) == (words == ("stop", "--now"))
        assert "by anna: disk full" in output.text

    play(tmp_path, story)


def test_a_brake_counts_the_jobs_of_its_scope_alone(tmp_path: Path) -> None:
    """Jobs that run and jobs that wait are counted for the cluster, the variant, the stage or the node."""

    async def story(world: World) -> None:
        await prepare(world)
        await world.beat("n2")
        counts = {}
        for scope in ((), ("--variant", VARIANT), ("--stage", "train"), ("--stage", "selfplay"), ("--node", "n2")):
            output = await ask_in(world, "pause", *scope)
            counts[scope[-1:]] = (output.value["running"], output.value["waiting"])
        elsewhere = await ask_in(world, "pause", "--variant", "hex8_3p")

        train = {"train": 1}
        assert counts == {
            (): (train, 1),
            (VARIANT,): (train, 1),
            ("train",): (train, 0),
            ("selfplay",): ({}, 1),
            ("n2",): ({}, 0),
        }
        assert (elsewhere.value["running"], elsewhere.value["waiting"]) == ({}, 0)

    play(tmp_path, story)


@pytest.mark.parametrize(
    ("words", "error", "names"),
    [
        (("--node", "n9"), UnknownName, "known: n1"),
        (("--variant", "chess_2p"), RingriftError, "chess"),
        (("--variant", "square8_9p"), RingriftError, "square8_9p"),
        (("--stage", "dance"), UnknownName, f"known: {', '.join(sorted(LOOP_STAGES))}"),
        (("--for", "soon"), SettingsError, "90s, 15m, 2h, 1d"),
    ],
)
@pytest.mark.parametrize("command", ["pause", "drain", "stop", "resume"])
def test_an_unknown_scope_is_refused(
    tmp_path: Path, command: str, words: tuple[str, str], error: type[RingriftError], names: str
) -> None:
    """A typed error lists what there is, and nothing changes."""
    if command == "resume" and words[0] == "--for":
        return

    async def story(world: World) -> None:
        await prepare(world)
        await ask_in(world, "pause", "--node", "n1")
        before = await in_force(world)

        with pytest.raises(error, match=re.escape(names)):
            await ask_in(world, command, *words)

        assert await in_force(world) == before
        assert len(await world.events(RunStateChanged)) == 1

    play(tmp_path, story)


def test_the_same_brake_twice_changes_nothing(tmp_path: Path) -> None:
    """The first one stays with its time and reason; another reason, time or state replaces it."""

    async def story(world: World) -> None:
        await prepare(world)
        await ask_in(world, "pause", "--reason", "disk full")
        first = await in_force(world)
        world.clock.seconds += 5.0

        again = await ask_in(world, "pause")
        assert await in_force(world) == first
        assert "(as before)" in again.text
        await ask_in(world, "pause", "--for", "1h")
        assert (await in_force(world))["cluster"].reason == "disk full"
        assert "(before: paused)" in (await ask_in(world, "stop")).text

        states = [event.state for event in await world.events(RunStateChanged) if isinstance(event, RunStateChanged)]
        assert states == ["paused", "paused", "stopped"]

    play(tmp_path, story)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90.0), ("15m", 900.0), ("2h", 7200.0), ("1d", 86_400.0), ("0.5h", 1800.0)]
)
def test_a_duration_is_a_number_with_a_unit(text: str, seconds: float) -> None:
    """Seconds, minutes, hours or days."""
    assert _seconds(context(None, "pause", "--for", text)) == seconds


@pytest.mark.parametrize("text", ["", "2", "h", "2w", "-1h", "0s", "1e9d", "999999999d", "1h30m", "١h"])
def test_another_duration_is_refused(text: str) -> None:
    """The error names the units."""
    with pytest.raises(SettingsError, match="90s, 15m, 2h, 1d"):
        _seconds(context(None, "pause", f"--for={text}"))


def test_a_brake_with_a_time_ends_by_itself(tmp_path: Path) -> None:
    """It says until when; afterwards it is not shown, and the end is published once."""

    async def story(world: World) -> None:
        await prepare(world)
        await ask_in(world, "drain", "--for", "15m")
        assert (await in_force(world))["cluster"].until == world.clock.now() + 900.0

        world.clock.seconds += 900.0
        assert "BRAKE" not in (await ask_in(world, "status")).text
        async with world.store.begin() as tx:
            await expire_run_states(tx, world.envelopes, world.clock.now())

        assert (await world.events(RunStateChanged))[-1] == RunStateChanged(
            scope="cluster", state="running", before="draining", reason="its time is over"
        )

    play(tmp_path, story)


def test_resume_names_what_stays_braked(tmp_path: Path) -> None:
    """Without a scope the cluster runs again and the others are named; with --all everything does."""

    async def story(world: World) -> None:
        await prepare(world)
        assert (await ask_in(world, "resume")).text == "cluster is running already"
        assert (await ask_in(world, "resume", "--all")).text == "nothing to resume: no scope is braked"
        for scope in SCOPES:
            await ask_in(world, "stop", "--now", *scope)

        output = await ask_in(world, "resume")

        assert "cluster runs again; it was in emergency" in output.text
        assert output.text.count("still braked: ") == 3
        assert "(resume: ringrift resume --stage train)" in output.text
        assert set(await in_force(world)) == set(SCOPES.values()) - {"cluster"}
        await ask_in(world, "resume", "--stage", "train")
        assert "stage:train" not in await in_force(world)
        every = await ask_in(world, "resume", "--all")
        assert await in_force(world) == {}
        assert [state.scope for state in every.value["resumed"]] == ["node:n1", f"variant:{VARIANT}"]

    play(tmp_path, story)


@pytest.mark.parametrize("words", [("status",), ("health",)], ids=" ".join)
def test_a_brake_comes_first_in_every_view(tmp_path: Path, words: tuple[str, ...]) -> None:
    """Each state in force with who, why, until when and how to resume; without one there is no such line."""

    async def story(world: World) -> None:
        await world.keep(at(Stage.COLLECTING).line)
        assert "BRAKE" not in (await ask_in(world, *words)).text
        await ask_in(world, "pause", "--for", "2h", "--reason", "upgrade")
        await ask_in(world, "stop", "--now", "--stage", "export")

        output = await ask_in(world, *words)

        first, second, *rest = output.text.split("\n")
        assert re.match(
            r"BRAKE: cluster is paused since .* until .*, by .*: upgrade \(resume: ringrift resume\)", first
        )
        assert re.match(r"BRAKE: stage export is in emergency since .* until it is resumed, by .*", second)
        assert rest
        states = output.value["run_states"] if isinstance(output.value, dict) else output.value.run_states
        assert [state.scope for state in states] == ["cluster", "stage:export"]

    play(tmp_path, story)


@pytest.mark.parametrize(
    ("event", "sentence"),
    [
        (
            RunStateChanged(scope="cluster", state="emergency", before="running", reason="disk full", by="anna"),
            "BRAKE: cluster is in emergency by anna: disk full (resume: ringrift resume)",
        ),
        (
            RunStateChanged(scope="stage:train", state="running", before="paused", by="anna"),
            "stage train runs again by anna (before: paused)",
        ),
    ],
)
def test_the_live_view_prints_every_change(event: RunStateChanged, sentence: str) -> None:
    """In a sentence, with how to resume."""
    assert describe_event(event) == sentence


@pytest.mark.parametrize("variant", [VARIANT, "hex8_3p"])
def test_why_names_every_brake(tmp_path: Path, variant: str) -> None:
    """Behind its answer: those of other stages as well, and also for a variant that has no line yet."""

    async def story(world: World) -> None:
        await world.keep(at(Stage.COLLECTING).line)
        assert "BRAKE" not in (await ask_in(world, "why", variant)).text
        await ask_in(world, "pause", "--for", "2h", "--reason", "upgrade")
        await ask_in(world, "stop", "--now", "--stage", "export")

        output = await ask_in(world, "why", variant)

        assert "BRAKE: cluster is paused since " in output.text
        assert "BRAKE: stage export is in emergency since " in output.text
        assert [state.scope for state in output.value["run_states"]] == ["cluster", "stage:export"]

    play(tmp_path, story)


def test_why_names_the_holder_of_the_training_slot(tmp_path: Path) -> None:
    """A training that is not started says so once, for all nodes, with the task or job that holds the slot."""

    async def story(world: World) -> None:
        await world.keep(at(Stage.TRAINING).line)
        beat_at = HostTick(host="host", tick=world.clock.tick())
        task = Task(id="t1", type="training", node="n7", variant=VARIANT, since=world.clock.now(), beat_at=beat_at)
        task = await world.start_task(task)
        train = Train(variant=VARIANT, generation=1, samples=blob("s"), parent=blob("m"))
        for node in ("n1", "n2"):
            assert not await world.claim(train, node=node)

        text = (await ask_in(world, "why", VARIANT)).text
        assert text.count("not started:") == 1
        assert f"train {VARIANT} waits: training slot of {VARIANT} is held by task t1 on node n7, since " in text
        async with world.store.begin() as tx:
            assert await end_tasks(tx, world.envelopes, [changed(task, state="completed")], world.clock.now())
        for node in ("n1", "n2"):
            await world.desk(node).claim({"train"}, 1)
        assert "not started:" not in (await ask_in(world, "why", VARIANT)).text

    play(tmp_path, story)


def test_why_names_the_brake_that_keeps_a_job_in_the_queue(tmp_path: Path) -> None:
    """The refused claim is stored with the brake and shown by kind."""

    async def story(world: World) -> None:
        await world.keep(at(Stage.TRAINING).line)
        await ask_in(world, "pause", "--stage", "train", "--reason", "upgrade")
        await world.claim(Train(variant=VARIANT, generation=1, samples=blob("s"), parent=blob("m")))

        text = (await ask_in(world, "why", VARIANT)).text

        assert f"not started:   train {VARIANT} waits: stage:train is paused: upgrade, since " in text

    play(tmp_path, story)
