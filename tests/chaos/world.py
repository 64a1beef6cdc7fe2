"""World: the home, its file systems and the processes of one chaos run, as the control process sees them."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from chaos.switches import History, Switches
from e2e.processes import Home

NODES, PROGRAMS = ("n1", "n2", "n3"), ("p1", "p2")
NAMES = NODES + PROGRAMS
STATUS_SECONDS_MAX = 60.0
_STORE_MEGABYTES, _BLOBS_MEGABYTES = 2048, 2048
_START_SECONDS_MAX, _STOP_SECONDS_MAX = 120.0, 90.0
_STARTS_REFUSED_MAX = 50
# Promotions are frequent and final here, so that a champion that is lost shows as a generation that falls.
SETTINGS = """
[store]
log_events_max = 100_000_000
detail_events_max = 100_000_000
[bus]
redeliver_seconds = 1.0
[bus.redelivery]
first_seconds = 1.0
seconds_max = 10.0
tries = 12
[work]
workload = "fake"
slots = 1
lease_seconds = 4.0
rescue_seconds = 0.5
grace_seconds = 3.0
[work.params]
fake_slow_seconds = 0.5
fake_every = 3
[work.retry]
first_seconds = 0.2
[work.breakers]
reset_seconds = 4.0
[cluster]
beat_seconds = 1.0
elect_seconds = 1.0
role_seconds = 5.0
watch_seconds = 1.0
heal_seconds = 2.0
heal_rest_seconds = 20.0
[replicas]
copies_min = 2
every_seconds = 1.0
[policy]
variants = ["hex8_2p", "hex8_3p"]
games_per_batch = 20
games_per_export = 60
play_jobs_open = 2
review_promotions = 0
ladder_seconds = 0
[policy.gate]
blocks_min = 4
blocks_max = 32
elo_0 = -200.0
elo_1 = 0.0
[policy.budget]
share = 0.5
start = 1.0
"""
VARIANTS = ("hex8_2p", "hex8_3p")


@dataclass
class _Process:
    """One process under test."""

    popen: "subprocess.Popen[bytes]"
    started: float
    has_fault: bool = False  # killed on purpose: its end is no finding

    @property
    def pid(self) -> int:
        return self.popen.pid


@dataclass
class World:
    """One run in *folder*; the faults use its verbs."""

    folder: Path
    mounted: bool
    processes: dict[str, _Process] = field(default_factory=dict)
    findings: list[str] = field(default_factory=list)
    down: set[str] = field(default_factory=set)  # names that a fault keeps from being started
    refused_starts: int = 0

    def __post_init__(self) -> None:
        self.began = time.monotonic()
        self.home = Home(self.folder / "home", SETTINGS)
        self.store_folder, self.blob_folder = self.home.path / "coordination", self.home.path / "blobs"
        self.story = History(self.folder / "story.log")
        self.switches = {name: Switches(self.folder / f"{name}.switches") for name in NODES}
        if self.mounted:
            self._mount("coordination", _STORE_MEGABYTES)
            self._mount("blobs", _BLOBS_MEGABYTES)
        for name in NODES:
            self.set_interpreter(name, "exec")
            self.mount_point(name).mkdir(parents=True)

    def mount_point(self, name: str) -> Path:
        """An empty folder to put in the place of a node's blobs; made early, because a full disk takes no new one."""
        return self.blob_folder / f"{name}.mountpoint"

    def _mount(self, name: str, megabytes: int) -> None:
        image, place = self.folder / f"{name}.ext4", self.home.path / name
        place.mkdir()
        with image.open("wb") as file:
            file.truncate(megabytes << 20)
        subprocess.run(["mkfs.ext4", "-q", "-m", "0", str(image)], check=True)
        subprocess.run(["mount", "-o", "loop", str(image), str(place)], check=True)
        (place / "lost+found").rmdir()

    def log(self, text: str) -> None:
        """Note what the control process does, and show it: a run may take an hour."""
        seconds = f"{time.monotonic() - self.began:9.2f}"
        self.story.add(seconds, text)
        sys.stdout.write(f"{seconds} {text}\n")
        sys.stdout.flush()

    def fail(self, text: str) -> None:
        """Note a violation."""
        self.findings.append(text)
        self.log(f"VIOLATION {text}")

    def wait(self, seconds: float) -> None:
        """Let the world run for a while; processes that end by themselves are findings and are started again."""
        end, pause = time.monotonic() + seconds, threading.Event()
        while (left := end - time.monotonic()) > 0:
            self.check_processes()
            pause.wait(min(0.2, left))

    def until(self, condition: Callable[[], bool], seconds: float, step_seconds: float = 0.1) -> bool:
        """Wait until *condition* holds; whether it does within *seconds*."""
        end, pause = time.monotonic() + seconds, threading.Event()
        while not condition():
            if time.monotonic() > end:
                return False
            self.check_processes()
            pause.wait(step_seconds)
        return True

    # Processes

    def start(self, name: str) -> None:
        """Start a process under test."""
        module = "chaos.node" if name in NODES else "chaos.program"
        path = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
        environ = {**os.environ, "RINGRIFT_HOME": str(self.home.path), "PYTHONPATH": path, "RINGRIFT_NODE_ID": name}
        with (self.folder / f"{name}.log").open("ab") as log:
            popen = subprocess.Popen(
                [sys.executable, "-m", module, name, str(self.folder)],
                env=environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        self.processes[name] = _Process(popen, time.monotonic())
        self.down.discard(name)
        self.log(f"{name} is started, process {popen.pid}")

    def is_ready(self, name: str) -> bool:
        """Whether the process *name* runs and has finished its start."""
        process = self.processes[name]
        history = self.folder / f"{name}-{process.pid}.history"
        return process.popen.poll() is None and history.exists() and f"ready {name}\n" in history.read_text()[:200]

    def await_ready(self, name: str) -> None:
        """Wait for the start of *name*."""
        if not self.until(lambda: self.is_ready(name), _START_SECONDS_MAX):
            self.fail(f"{name} was not ready within {_START_SECONDS_MAX:g} s")

    def kill(self, name: str) -> None:
        """SIGKILL; the process stays away until it is started."""
        process = self.processes[name]
        process.has_fault = True
        self.down.add(name)
        process.popen.kill()
        process.popen.wait()
        self.log(f"{name} is killed")

    def check_processes(self) -> None:
        """Every process that ended by itself is a finding, unless it had not finished its start; start it again."""
        for name, process in list(self.processes.items()):
            code = process.popen.poll()
            if code is None or name in self.down:
                continue
            tail = (self.folder / f"{name}.log").read_text(errors="replace").strip().splitlines()[-1:]
            if self._was_ready(name, process):
                self.fail(f"{name} ended by itself with code {code}: {tail}")
            else:
                self.refused_starts += 1
                self.log(f"{name} could not start, code {code}: {tail}")
                if self.refused_starts > _STARTS_REFUSED_MAX:
                    raise SystemExit(f"{name} cannot start: see {self.folder}/{name}.log")
            threading.Event().wait(1.0)
            self.start(name)

    def _was_ready(self, name: str, process: _Process) -> bool:
        history = self.folder / f"{name}-{process.pid}.history"
        return history.exists() and f"ready {name}\n" in history.read_text()

    def stop_all(self) -> None:
        """SIGTERM to every process; each must end in order."""
        self.down.update(NAMES)
        for name in reversed(NAMES):
            process = self.processes[name].popen
            process.send_signal(signal.SIGCONT)
            process.terminate()
            try:
                code = process.wait(_STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
                self.fail(f"{name} did not stop within {_STOP_SECONDS_MAX:g} s of SIGTERM")
                continue
            if code:
                self.fail(f"{name} ended with code {code} after SIGTERM")
            self.log(f"{name} has stopped")

    def clear(self) -> None:
        """Kill whatever is left, and leave the file systems."""
        for process in self.processes.values():
            if process.popen.poll() is None:
                process.popen.kill()
                process.popen.wait()
        for pid in self.home.orphans():
            psutil.Process(pid).kill()

    def set_interpreter(self, name: str, how: str) -> None:
        """What the workers of *name* are started with: it works (exec), fails at once (exit) or cannot run (mode)."""
        script, new = self.folder / f"{name}.python", self.folder / f"{name}.python.new"
        new.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n' if how != "exit" else "#!/bin/sh\nexit 3\n")
        new.chmod(0o644 if how == "mode" else 0o755)
        new.rename(script)

    # Questions

    def status(self) -> str:
        """The output of ``ringrift status``, as a person would run it; a failure of it is part of that."""
        environ = {**os.environ, "RINGRIFT_HOME": str(self.home.path)}
        command = [str(Path(sys.executable).with_name("ringrift")), "status"]
        try:
            done = subprocess.run(
                command, env=environ, capture_output=True, text=True, timeout=STATUS_SECONDS_MAX, check=False
            )
        except subprocess.TimeoutExpired:
            return f"STATUS did not answer within {STATUS_SECONDS_MAX:g} s"
        return done.stdout + done.stderr + (f"\nSTATUS ended with code {done.returncode}" if done.returncode else "")

    def generations(self) -> dict[str, tuple[int, int]]:
        """Generation and batches of every line."""
        return {variant: (line.generation, line.counts.batches) for variant, line in self.home.lines().items()}

    def collect_evidence(self) -> None:
        """Copy the store out of its file system, where only this process sees it."""
        if self.mounted:
            shutil.copytree(self.store_folder, self.folder / "store", dirs_exist_ok=True)


def dump(path: Path, value: object) -> None:
    """Write *value* as JSON for inspection."""
    path.write_text(json.dumps(value, indent=1))
