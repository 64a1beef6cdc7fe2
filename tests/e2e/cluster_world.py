"""A cluster of real processes: each on a host of its own, where the homes of the others do not exist."""

import os
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from e2e.cluster_net import PORT, Net, require_namespaces
from e2e.processes import QUICK, Home
from ringrift.blobs.folder import Folder
from ringrift.kernel.clock import SystemClock
from wait import until

COORDINATOR, OUTBOUND_ONLY = "c", "w5"
_START_SECONDS_MAX = 60.0
CLOCK = SystemClock()
# Leases as long as the promises are measured with; jobs of a second or two, so that each fault meets some of them.
FLEET = (
    QUICK.replace("lease_seconds = 1.2", "lease_seconds = 10.0")
    .replace("rescue_seconds = 0.2", "rescue_seconds = 0.5")
    .replace("play_jobs_open = 2", "play_jobs_open = 16")
    .replace("beat_seconds = 0.5", "beat_seconds = 1.0")
    + '[work.params]\nfake_slow_seconds = 1.5\nfake_stage = "play"\n'
)
# Runs the command line; the wall clock is as far off as a file says, and each acknowledgement of a result is recorded.
_PROGRAM = """
import sys, time
real, offset = time.time, {home!r} + "/clock_offset"
def stepped():
    try:
        with open(offset) as file:
            return real() + float(file.read() or 0)
    except OSError:
        return real()
time.time = stepped
{record}
from ringrift.cli.main import main
main(sys.argv[1:])
"""
_RECORD = """sys.path.insert(0, {tests!r})
from e2e.cluster_record import record_acknowledgements
record_acknowledgements({home!r} + "/acknowledged")"""
# Every home is hidden, then the host's own one put back.
_MOUNT = "mount --bind {home} /mnt && mount -t tmpfs none {homes} && mkdir {home} && mount --move /mnt {home} && exec "


class Answered(NamedTuple):
    """What a worker was answered: a lease, a result as the job's (both id and fence), or as a batch of an island."""

    kind: str
    name: str
    number: int
    blobs: tuple[str, ...]


def _parse(kind: str, name: str, number: str, blobs: str) -> Answered:
    return Answered(kind, name, int(number), tuple(filter(None, blobs.split(","))))


def read_answers(home: Path) -> list[Answered]:
    """What the worker of *home* was answered, in order."""
    path = home / "acknowledged"
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [_parse(*line[:-1].split(" ")) for line in lines if line.endswith("\n")]


class Host(Home):
    """One machine: its network, its home, and the processes there."""

    def __init__(self, homes: Path, name: str, net: Net, settings: str) -> None:
        super().__init__(homes / name, settings)
        self.name, self._homes, self._net = name, homes, net
        self.program = sys.executable

    def launch(self, program: str, *arguments: str, typed: bool = False) -> "subprocess.Popen[str]":
        """Start *program* on this host; its output goes to a file beside the homes."""
        script = _MOUNT.format(home=shlex.quote(str(self.path)), homes=shlex.quote(str(self._homes)))
        line = shlex.join([self.program, "-c", program, *arguments])
        here = ["ip", "netns", "exec", self._net.namespace(self.name), "unshare", "--mount"]
        with self.log.open("a") as log:
            env = {**os.environ, "RINGRIFT_HOME": str(self.path), "RINGRIFT_NODE_ID": self.name}
            ways: Any = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": subprocess.STDOUT}
            line_here = [*here, "sh", "-c", script + line]
            process = subprocess.Popen(line_here, env=env, text=True, start_new_session=True, **ways)
        self.started.append(process)
        return process

    def start(
        self, *arguments: str, failpoint: tuple[str, int] | None = None, typed: bool = False
    ) -> "subprocess.Popen[str]":
        """Start ``ringrift`` with *arguments* on this host."""
        home, tests = str(self.path), str(Path(__file__).parents[1])
        record = _RECORD.format(home=home, tests=tests) if arguments[0] == "join" else ""
        return self.launch(_PROGRAM.format(home=home, record=record), *arguments)

    def run(self, *arguments: str, seconds: float = 60.0) -> tuple[int, str]:
        """Run ``ringrift`` with *arguments* to its end: exit code and output."""
        before, process = len(self.output()), self.start(*arguments)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            raise AssertionError(f"no end within {seconds} s:\n{self.output()[before:][-3000:]}") from None
        return process.returncode, self.output()[before:]

    @property
    def log(self) -> Path:
        """What its processes print, beside the homes."""
        return self._homes.parent / f"{self.name}.log"

    def output(self) -> str:
        """What its processes have printed."""
        return self.log.read_text() if self.log.exists() else ""

    @property
    def process(self) -> "subprocess.Popen[str]":
        """The process that was started last."""
        return self.started[-1]

    def signal(self, number: int) -> None:
        """Send a signal to every process of this host."""
        for pid in self._net.pids(self.name):
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def kill(self) -> None:
        """Kill its main process; the workers of it end by themselves."""
        self.process.kill()
        self.process.wait(10)
        until(lambda: not self._net.pids(self.name), 20.0)

    def step_clock(self, seconds: float) -> None:
        """Move the wall clock of its main process by *seconds* from the true time."""
        beside = self.path / "clock_offset.new"
        beside.write_text(str(seconds))
        beside.rename(self.path / "clock_offset")

    def answered(self) -> list[Answered]:
        """What its worker was answered, in order."""
        return read_answers(self.path)

    def acknowledged(self) -> list[Answered]:
        """The results that its worker had acknowledged."""
        return [row for row in self.answered() if row.kind != "lease"]

    def sees(self, path: Path) -> bool:
        """Whether its main process can see *path*."""
        return Path(f"/proc/{self.process.pid}/root{path}").exists()

    def listens(self) -> list[str]:
        """The addresses at which it listens, from the table of its network: state 0A is LISTEN."""
        rows = map(str.split, Path(f"/proc/{self.process.pid}/net/tcp").read_text().splitlines())
        return [words[1] for words in rows if words[3] == "0A"]

    def namespaces(self) -> tuple[str, str]:
        """The network and mount namespaces of its main process."""
        folder = f"/proc/{self.process.pid}/ns"
        return os.readlink(f"{folder}/net"), os.readlink(f"{folder}/mnt")


class Cluster:
    """A coordinator and its workers; the last of five is behind a firewall that lets it dial out, and nothing in."""

    def __init__(self, folder: Path, workers: int, settings: str) -> None:
        self.homes = folder / "homes"
        self.homes.mkdir()
        self.names = tuple(f"w{number}" for number in range(1, workers + 1))
        self.net = Net((COORDINATOR, *self.names))
        if OUTBOUND_ONLY in self.names:
            self.net.let_out_only(OUTBOUND_ONLY)
        self.hosts = {name: Host(self.homes, name, self.net, settings) for name in (COORDINATOR, *self.names)}
        self.coordinator = self.hosts[COORDINATOR]
        self.workers = {name: self.hosts[name] for name in self.names}
        self._numbers, self.options = count(1), tuple[str, ...]()

    @property
    def url(self) -> str:
        return f"http://{self.net.address(COORDINATOR)}:{PORT}"

    def start_coordinator(self, *arguments: str) -> None:
        """Start the coordinator, and wait until it serves."""
        address = self.net.address(COORDINATOR)
        self.options = arguments
        self.coordinator.start("coordinator", "--bind", address, "--insecure", *arguments)
        until(self._serves, _START_SECONDS_MAX)

    def _serves(self) -> bool:
        assert self.coordinator.process.poll() is None, self.coordinator.output()[-3000:]
        host = socket.inet_aton(self.net.address(COORDINATOR))[::-1].hex().upper()
        return f"{host}:{PORT:04X}" in self.coordinator.listens()

    def join(self, name: str, *arguments: str, node: str = "") -> None:
        """Let a new worker join by a token; one of a known *node* has lost its key."""
        host, number = self.workers[name], next(self._numbers)
        coordinator = self.coordinator.process
        code, output = self.coordinator.run("nodes", "token", *(("--node", node) if node else ()))
        self.coordinator.started.remove(self.coordinator.process)
        assert self.coordinator.process is coordinator
        assert code == 0, output
        token = host.path / f"token{number}"
        token.write_text(next(word for word in output.split() if word.startswith("rr-")))
        token.chmod(0o600)
        host.start("join", self.url, "--token-file", str(token), *arguments)

    def rejoin(self, name: str, *arguments: str) -> None:
        """Start a worker again that has joined before: its key is in its home."""
        self.workers[name].start("join", self.url, *arguments)

    def work_again(self, seconds_max: float) -> float:
        """Wait until every worker had a result acknowledged of a job that it claimed from now on, and all are at work.

        Returns the seconds that took.
        """
        before = {name: len(host.answered()) for name, host in self.workers.items()}
        load, start, late = os.getloadavg()[0], CLOCK.tick(), dict[str, str]()

        def do() -> bool:
            for name, host in self.hosts.items():
                assert host.process.poll() is None, f"{name} has ended:\n{host.output()[-2000:]}"
            idle = [name for name, host in self.workers.items() if not _is_done(host.answered()[before[name] :])]
            late.clear()
            late.update({name: self.workers[name].output()[-600:] for name in idle})
            return not idle and self.at_work() >= set(self.names)

        try:
            until(do, seconds_max)
        except TimeoutError:
            texts = f"at work {sorted(self.at_work())}; without a new result {late}"
            raise AssertionError(f"not at full work after {seconds_max:g} s (load {load:.1f}): {texts}") from None
        return CLOCK.tick() - start

    def at_work(self) -> set[str]:
        """The workers that hold a job just now."""
        rows = self.coordinator.ask("SELECT DISTINCT holder FROM jobs WHERE state = 'claimed'")
        return {holder for (holder,) in rows}

    def clear(self) -> None:
        """End every process, and remove the hosts."""
        for host in self.hosts.values():
            host.signal(signal.SIGKILL)
            for process in host.started:
                process.wait(10)
        until(lambda: not any(map(self.net.pids, self.hosts)), 20.0)
        self.net.clear()


def _is_done(rows: list[Answered]) -> bool:
    """Whether a job of *rows* was claimed and its result acknowledged."""
    leased = {(row.name, row.number) for row in rows if row.kind == "lease"}
    return any((row.name, row.number) in leased for row in rows if row.kind == "job")


def missing_results(home: Home, answers: Mapping[str, Sequence[Answered]]) -> list[str]:
    """The results of *answers*, by worker, that the coordinator of *home* lacks: as jobs that are done, or as files."""
    rows = [(name, row) for name, answered in answers.items() for row in answered if row.kind != "lease"]
    missing, blobs = [], {blob for _, row in rows for blob in row.blobs}
    done = set(home.ask("SELECT id, fence FROM every_job WHERE state = 'done'"))
    origins = {blob for (blob,) in home.ask("SELECT b.name FROM origins o JOIN names b ON b.number = o.blob")}
    folders = [Folder(path) for path in (home.path / "blobs").iterdir()]
    whole = {blob for folder in folders for blob in folder.have(blobs) if not folder.is_corrupt(blob)}
    for name, row in rows:
        is_there = (row.name, row.number) in done if row.kind == "job" else origins.issuperset(row.blobs)
        missing += [] if is_there else [f"{name}: {row}"]
        missing += [f"{name}: {row}: file {blob[:12]}" for blob in row.blobs if blob not in whole]
    return missing


@contextmanager
def open_cluster(folder: Path, workers: int, settings: str = FLEET) -> Iterator[Cluster]:
    """A cluster whose processes are ended afterwards."""
    require_namespaces()
    cluster = Cluster(folder, workers, settings)
    try:
        yield cluster
    finally:
        cluster.clear()
