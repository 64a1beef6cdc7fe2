"""Real processes: starts the command line as a user would, reads its store from outside, detects orphans."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw
import msgspec
import psutil

from ringrift.pipeline.line import Line, check
from ringrift.work.game_ledger import GameAccount, find_imbalance
from wait import until

PATIENCE_SECONDS = 60.0
EXIT_FAILPOINT = 137
UNMADE = (apsw.CantOpenError, apsw.SQLError, apsw.ReadOnlyError)
"""The errors of a reader while a store is being made, or if that was interrupted: only a writer can repair it."""
PROGRAM = (
    "import sys; from ringrift.kernel import failpoint; from ringrift.cli.main import main; {arm}main(sys.argv[1:])"
)
FAKE = """
[work]
workload = "fake"
"""
# The gate lets nearly every candidate pass at once: most tests are about the loop, not about its decisions.
QUICK = f"""{FAKE}slots = 1
lease_seconds = 1.2
rescue_seconds = 0.2
grace_seconds = 2.0
[work.retry]
first_seconds = 0.1
[cluster]
beat_seconds = 0.5
elect_seconds = 0.3
role_seconds = 1.2
[replicas]
every_seconds = 0.5
[policy]
games_per_batch = 20
games_per_export = 60
play_jobs_open = 2
[policy.gate]
blocks_min = 4
blocks_max = 32
elo_0 = -200.0
elo_1 = 0.0
[policy.budget]
share = 0.5
start = 1.0
"""
# For tests of evidence and strength: here a candidate has to be better.
SHARP = (
    QUICK[: QUICK.index("[policy.gate]")]
    + """[policy.gate]
blocks_max = 64
elo_1 = 60.0
"""
)


class Home:
    """A RINGRIFT_HOME of a test, with everything that can be queried from outside."""

    def __init__(self, path: Path, settings: str = QUICK) -> None:
        self.path = path
        self.started: list[subprocess.Popen[str]] = []
        path.mkdir(exist_ok=True)
        (path / "ringrift.toml").write_text(settings)

    def start(
        self, *arguments: str, failpoint: tuple[str, int] | None = None, typed: bool = False
    ) -> "subprocess.Popen[str]":
        """Start ``ringrift`` with *arguments*, dying at the nth pass of *failpoint* if one is given.

        With *typed* it reads what the test writes to it, else nothing.
        """
        arm = f"failpoint.arm({failpoint[0]!r}, {failpoint[1]}); " if failpoint else ""
        return self.launch(PROGRAM.format(arm=arm), *arguments, typed=typed)

    def launch(self, program: str, *arguments: str, typed: bool = False) -> "subprocess.Popen[str]":
        """Start *program*, a text in Python, in this home."""
        process = subprocess.Popen(
            [sys.executable, "-c", program, *arguments],
            env={**os.environ, "RINGRIFT_HOME": str(self.path), "RINGRIFT_NODE_ID": "a"},
            stdin=subprocess.PIPE if typed else None,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.started.append(process)
        return process

    def clear(self) -> None:
        """Kill every process of this home that still runs, as after a test that failed."""
        for process in self.started:
            if process.poll() is None:
                kill(process)
            if process.stdout is not None:
                process.stdout.close()
        for pid in self.orphans():
            with suppress(psutil.NoSuchProcess):
                psutil.Process(pid).kill()

    def run(self, *arguments: str, seconds: float = 60.0) -> tuple[int, str]:
        """Run ``ringrift`` with *arguments* to its end: exit code and output."""
        process = self.start(*arguments)
        try:
            output, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            raise AssertionError(f"no end within {seconds} s:\n{process.communicate()[0][-3000:]}") from None
        return process.returncode, output

    @property
    def database(self) -> Path:
        """The file of the store."""
        return self.path / "coordination" / "coordinator.db"

    def copied(self, path: Path) -> "Home":
        """A home of the same content elsewhere; nothing may be running in this one."""
        shutil.copytree(self.path, path, symlinks=True)
        return Home(path, (path / "ringrift.toml").read_text())

    def has(self, query: str, *arguments: Any) -> bool:
        """Whether *query* has rows; a store that does not exist yet, or is being made just now, has none."""
        if not self.database.exists():
            return False
        try:
            return bool(self.ask(query, *arguments))
        except UNMADE:
            return False

    def ask(self, query: str, *arguments: Any) -> list[tuple[Any, ...]]:
        """Rows of *query*, from a connection of our own that can only read."""
        db = apsw.Connection(str(self.database), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            db.set_busy_timeout(5000)
            return list(db.execute(query, arguments))
        finally:
            db.close()

    def records(self, kind: str) -> list[Any]:
        """The body of every record of *kind*, without its checksum."""
        rows = self.ask("SELECT CAST(body AS TEXT) FROM records WHERE kind = ?", kind)
        return [json.JSONDecoder().raw_decode(body)[0] for (body,) in rows]

    def lines(self) -> dict[str, Line]:
        """Every line, each checked."""
        lines = [msgspec.convert(body, Line) for body in self.records("line")]
        for line in lines:
            check(line)
        return {line.variant: line for line in lines}

    def batches(self) -> dict[str, Counter[str]]:
        """By variant, how often each batch was announced to the pipeline, as far as that has read."""
        query = """SELECT body FROM log WHERE name = 'selfplay.batch_finished'
            AND position <= (SELECT position FROM readers WHERE reader = 'pipeline')"""
        batches: dict[str, Counter[str]] = {}
        for (body,) in self.ask(query):
            event = json.loads(body)
            batches.setdefault(event["variant"], Counter())[event["batch"]] += 1
        return batches

    def unbalanced(self) -> list[str]:
        """Where the conservation of work does not hold, archived jobs included: counted one by one and by the tally."""
        [(jobs, highest, counted)] = self.ask(
            "SELECT (SELECT count(*) FROM every_job), (SELECT coalesce(max(number), 0) FROM jobs),"
            " (SELECT coalesce(sum(count), 0) FROM job_counts)"
        )
        problems = (
            [] if jobs == highest == counted else [f"{jobs} jobs, {highest} ever enqueued, {counted} in the tally"]
        )
        differences = self.ask(
            "SELECT kind, variant, state, ifnull(holder, ''), count(*) FROM every_job"
            " GROUP BY kind, variant, state, holder EXCEPT SELECT * FROM job_counts"
        )
        return problems + [f"the tally differs for {row}" for row in differences] + self._unaccounted()

    def _unaccounted(self) -> list[str]:
        """The lines whose slots of self-play are not all accounted for, as of one moment."""
        rows = self.ask(
            "SELECT CAST(body AS TEXT), (SELECT json_group_object(state, total) FROM (SELECT state, sum(count) AS total"
            " FROM job_counts WHERE kind = 'play' AND variant = records.id GROUP BY state))"
            " FROM records WHERE kind = 'game_account'"
        )
        pairs = [(msgspec.json.decode(body, type=GameAccount), json.loads(counts)) for body, counts in rows]
        texts = [(account.variant, find_imbalance(account, counts)) for account, counts in pairs]
        return [f"self-play of {variant}: {text}" for variant, text in texts if text]

    def orphans(self) -> list[int]:
        """Worker processes of this home that still exist."""
        orphans = []
        for process in psutil.process_iter(["cmdline", "status"]):
            words = process.info["cmdline"] or []
            ours = "ringrift.workers.guard" in words and any(str(self.path) in word for word in words)
            if ours and process.info["status"] != psutil.STATUS_ZOMBIE:
                orphans.append(process.pid)
        return orphans


def kill(process: "subprocess.Popen[str]") -> None:
    """Send SIGKILL, and wait until the process has ended."""
    process.send_signal(signal.SIGKILL)
    process.communicate()


def reached(process: "subprocess.Popen[str]", holds: Callable[[], bool]) -> None:
    """Wait until a condition holds; *process* must be running until then."""

    def so() -> bool:
        assert process.poll() is None, process.communicate()[0][-3000:]
        return holds()

    until(so, PATIENCE_SECONDS)


def outlived(process: "subprocess.Popen[str]", seconds: float) -> bool:
    """Whether *process* is still running after *seconds*."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return True
    return False
