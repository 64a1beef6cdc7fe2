"""Jobs can be looked at, cancelled and tried again; what does not fit their state is refused with a reason."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from ringrift.cli.commands.jobs import _job_lines, _logs, _state_text
from ringrift.cli.main import build_parser
from ringrift.events.work import Buried, Cancelled, Enqueued
from ringrift.jobs import JobQuery, Match, Play, Purpose, Train
from ringrift.kernel.errors import InputError, RingriftError, SettingsError, UnknownName
from ringrift.kernel.settings import LogSettings
from ringrift.store.ports import JobRow, Lease, Origin, Renewal
from ringrift.work.desk import Done, Fault, JobOutcome
from ringrift.work.job_facts import find_job, job_facts
from ringrift.work.launch.output import OutputFiles
from unit.cli.command_output import ask, context
from unit.pipeline.story import blob
from unit.work.world import World, play

TRACE = 'Traceback (most recent call last):\n  File "game.py", line 7, in run\nKeyError: 1\n'
MODEL = blob("model")


def games(seed: int = 0, variant: str = "hex8_2p") -> Play:
    """A batch of games to play."""
    return Play(variant=variant, model=MODEL, games=10, seed=seed)


async def failed(world: World, lease: Lease, **facts: object) -> None:
    """Let the attempt of *lease* fail for good."""
    await world.desk(lease.holder).fail(
        [Fault(lease=lease, error="KeyError: 1", retry=False, traceback=TRACE, **facts)]
    )


async def some_jobs(world: World) -> list[str]:
    """The ids of a job that is done, one that was given up, one that runs, and one that waits."""
    ids = []
    [done] = await world.claim(games(0), node="n1")
    origin = Origin(blob=blob("batch"), node="n1", kind="games", variant="hex8_2p", games=10)
    outcome = JobOutcome(origins=(origin,))
    await world.desk("n1").finish([Done(lease=Renewal(job=done.job, fence=done.fence), outcome=outcome)])
    [dead] = await world.claim(games(1), node="n2")
    await failed(world, dead)
    [runs] = await world.claim(Train(variant="square8_2p", generation=3), node="n3")
    ids += [done.job, dead.job, runs.job]
    match = Match(variant="hex8_2p", candidate=MODEL, champion=blob("old"), first=0, count=8, purpose=Purpose.REVIEW)
    ids += await world.desk().enqueue([match])
    return ids


async def listed(world: World, *words: str) -> list[str]:
    """The ids that the list shows."""
    output = await ask(world.store, "jobs", *words, clock=world.clock)
    assert all(row["id"] in output.text for row in output.value)
    return [row["id"] for row in output.value]


def test_jobs_alone_lists_the_newest(tmp_path: Path) -> None:
    """Each filter selects by itself; archived jobs are listed like others."""

    async def story(world: World) -> None:
        ids = done, dead, runs, waits = await some_jobs(world)

        for _ in range(2):
            assert await listed(world) == ids
            assert await listed(world, "list", "--limit", "2") == [runs, waits]
            assert await listed(world, "--variant", "square8_2p") == [runs]
            assert await listed(world, "--kind", "play") == [done, dead]
            assert await listed(world, "--state", "dead,ready") == [dead, waits]
            assert await listed(world, "--node", "n3") == [runs]
            async with world.store.begin() as tx:
                await tx.archive_jobs(1, 100)
        async with world.store.begin() as tx:
            assert await tx.archive_jobs(1, 100) == 0
        text = (await ask(world.store, "jobs", clock=world.clock)).text
        assert [line.split()[4] for line in text.splitlines()[1:3]] == ["—", "n2"]
        assert "KeyError: 1" in text
        assert "review" in text

    play(tmp_path, story)


def test_a_job_is_found_by_a_part_of_its_id(tmp_path: Path) -> None:
    """The beginning or the end is enough if it is of one job alone."""

    async def story(world: World) -> None:
        done, dead, *_ = await some_jobs(world)
        async with world.store.read() as view:
            assert (await find_job(view, done)).id == done
            assert (await find_job(view, dead[-2:])).id == dead
            assert [row.id for row in await view.list_jobs(JobQuery(begins=dead[:-1]), 9)][-1] in (done, dead)
            with pytest.raises(InputError, match="is ambiguous"):
                await find_job(view, done[:8])
            for text in ("nothing", "", "%", done + "0"):
                with pytest.raises(UnknownName):
                    await find_job(view, text)

    play(tmp_path, story)


def test_all_about_a_job_is_shown(tmp_path: Path) -> None:
    """State, node, tries by node, lease, progress, parameters, inputs, outputs and every failure with its traceback."""

    async def story(world: World) -> None:
        done, dead, runs, waits = await some_jobs(world)
        async with world.store.begin() as tx:
            [row] = await tx.jobs(("claimed",), 9)
            await tx.renew([Renewal(job=row.id, fence=row.fence, progress=0.25)])
        async with world.store.read() as view:
            facts = {id: await job_facts(view, id) for id in (done, dead, runs, waits)}

        assert (facts[done].state, facts[done].node) == ("done", "n1")
        assert [origin.blob for origin in facts[done].outputs] == [blob("batch")]
        assert facts[done].inputs == {"model": (MODEL,)}
        assert facts[done].parameters["games"] == 10
        assert (_state_text(facts[dead]), facts[dead].node, facts[dead].error) == ("given up", "n2", "KeyError: 1")
        assert [failure.traceback for failure in facts[dead].failures] == [TRACE]
        assert facts[dead].tries == {"n2": 1}
        assert (facts[runs].node, facts[runs].progress, facts[runs].renewals) == ("n3", 0.25, 1)
        assert (_state_text(facts[waits]), facts[waits].purpose) == ("waits", "review")
        lines = "\n".join(_job_lines(facts[dead], world.clock.now()))
        assert 'File "game.py", line 7, in run' in lines
        assert "attempt 1 on n2 failed" in lines
        lines = "\n".join(_job_lines(facts[runs], world.clock.now()))
        assert "30 s, renewed 1 times" in lines
        assert "25%" in lines
        output = await ask(world.store, "jobs", "show", dead, clock=world.clock)
        assert TRACE.splitlines()[1].strip() in output.text
        msgspec.json.encode(output.value)

    play(tmp_path, story)


def test_tries_are_counted_by_node_and_an_equal_traceback_is_shown_once(tmp_path: Path) -> None:
    """A job that waits for its next try says how often which node failed it, and for how long it waits."""

    async def story(world: World) -> None:
        await world.beat("n1")
        await world.beat("n2")
        [lease] = await world.claim(games(), node="n1")
        for node in ("n1", "n2"):
            await world.desk(node).fail([Fault(lease=lease, error="KeyError: 1", traceback=TRACE)])
            async with world.store.begin() as tx:
                await tx.resume([lease.job])
            [lease] = await world.desk("n2").claim({"play"}, 1)
        await world.desk("n2").fail([Fault(lease=lease, error="KeyError: 2", traceback=TRACE + "2")])
        async with world.store.read() as view:
            facts = await job_facts(view, lease.job)

        assert facts.tries == {"n1": 1, "n2": 2}
        assert _state_text(facts).startswith("waits: tried again ")
        text = "\n".join(_job_lines(facts, world.clock.now()))
        assert "3 (1 failed on n1, 2 failed on n2)" in text
        assert text.count("Traceback") == 2  # three failures, two of them alike

    play(tmp_path, story)


async def row_of(world: World, id: str) -> JobRow:
    """The stored job."""
    async with world.store.read() as view:
        return await find_job(view, id)


def test_a_cancelled_job_is_given_up_for_its_line(tmp_path: Path) -> None:
    """One that waits or runs is cancelled, its holder fenced off; its line is told, and so is the person."""

    async def story(world: World) -> None:
        *_, runs, waits = await some_jobs(world)
        texts = [(await ask(world.store, "jobs", "cancel", id)).text for id in (runs, waits)]

        assert {(await row_of(world, id)).state for id in (runs, waits)} == {"cancelled"}
        assert "node n3 stops it" in texts[0]
        assert "node" not in texts[1]
        assert [event.jobs for event in await world.events(Cancelled)] == [(runs,), (waits,)]
        buried = [event for event in await world.events(Buried) if event.job in (runs, waits)]
        assert [(event.job, event.error, event.purpose) for event in buried] == [
            (runs, "cancelled by an operator", ""),
            (waits, "cancelled by an operator", "review"),
        ]

    play(tmp_path, story)


def test_a_job_that_was_given_up_is_tried_again(tmp_path: Path) -> None:
    """It gets a new id and all its tries; the pause of one that waits for its next try ends."""

    async def story(world: World) -> None:
        _, dead, *_ = await some_jobs(world)
        output = await ask(world.store, "jobs", "retry", dead)
        again = output.value["new"]
        assert again in output.text
        row, before = await row_of(world, again), await row_of(world, dead)
        assert (row.state, row.body, row.key, row.attempts) == ("ready", before.body, before.key, 0)
        assert again in [id for event in await world.events(Enqueued) for id in event.jobs]

        [lease] = await world.desk("n1").claim({"play"}, 1)
        await world.desk("n1").fail([Fault(lease=lease, error="KeyError: 1")])
        assert (await row_of(world, again)).pause > 0
        assert (await ask(world.store, "jobs", "retry", again)).value["new"] == again
        assert (await row_of(world, again)).pause == 0

    play(tmp_path, story)


def test_a_verb_that_does_not_fit_the_state_changes_nothing(tmp_path: Path) -> None:
    """Each is a typed error that says why."""

    async def story(world: World) -> None:
        done, dead, runs, waits = await some_jobs(world)
        before, position = await world.jobs(), world.store.position
        for words, reason in (
            (("cancel", done), "it is done"),
            (("cancel", dead), "it is dead"),
            (("retry", done), "it is done"),
            (("retry", runs), "cancel it first"),
            (("retry", waits), "it waits its turn"),
            (("retry", "nothing"), "unknown job"),
        ):
            with pytest.raises(RingriftError, match=reason) as error:
                await ask(world.store, "jobs", *words)
            assert isinstance(error.value, InputError | UnknownName)
        assert (await world.jobs(), world.store.position) == (before, position)

        await ask(world.store, "jobs", "retry", dead)
        with pytest.raises(InputError, match="does the same work already"):
            await ask(world.store, "jobs", "retry", dead)

    play(tmp_path, story)


@pytest.mark.parametrize(
    "words",
    [
        ("show",),
        ("logs",),
        ("cancel",),
        ("list", "x"),
        ("--state", "lost"),
        ("--kind", "paly"),
    ],
)
def test_bad_words_are_refused_at_the_edge(words: Sequence[str]) -> None:
    """Before any store is opened."""
    with pytest.raises((InputError, UnknownName)):
        asyncio.run(ask(None, "jobs", *words))  # type: ignore[arg-type]  # it is not reached
    with pytest.raises(SettingsError):
        asyncio.run(ask(None, "jobs", "--limit", "0"))  # type: ignore[arg-type]  # as above


def test_the_output_of_every_attempt_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With a line for each attempt and for what was not kept; a single attempt stands alone."""

    async def story(world: World) -> None:
        _, dead, *_ = await some_jobs(world)
        logs = LogSettings(folder=str(tmp_path), job_bytes_max=1024)
        files = OutputFiles(logs)
        files.write(f"{dead}.1", "äh\n".encode())
        files.write(f"{dead}.2", b"x" * 600 + b"y" * 600 + b"end\n")
        await files.flush()

        async def printed(*words: str) -> str:
            made = context(world.store, "jobs", "logs", *words)
            settings = msgspec.structs.replace(made.settings, logs=logs)
            await _logs(replace(made, effective=replace(made.effective, settings=settings)))
            return capsys.readouterr().out

        text = await printed(dead, "--follow")  # it has ended, so that there is nothing to wait for
        assert text.startswith("--- attempt 1 ---\näh\n--- attempt 2 ---\nxxx")
        assert "\n--- 256 bytes were not kept ---\n" in text
        assert text.endswith("yend\n")
        assert await printed(dead[-3:], "--attempt", "1") == "äh\n"
        assert '"attempt": 1, "text": "\\u00e4h\\n"' in await printed(dead, "--json")

    play(tmp_path, story)


def test_options_may_stand_between_arguments() -> None:
    """``jobs logs -f JOB`` is what people type."""
    options = build_parser("jobs").parse_args(["jobs", "logs", "-f", "01JOB", "--json"])

    assert (options.verb, options.follow, options.job, options.json) == ("logs", True, "01JOB", True)
