"""The page *A cluster*: every command on it is typed, on machines that are folders here, and prints what it says."""

import getpass
import os
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from e2e.processes import QUICK
from e2e.ssh_server import NEEDS_SSHD, SshServer, checkout
from wait import until

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "2-a-cluster.md"
COMMAND = re.compile(r"^(desk|attic|rented|laptop)\$ (.*)$")
BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
FOREGROUND = re.compile(r"ringrift (up|coordinator|join)\b(?!.*--program)")
SECONDS_MAX = 60.0


@dataclass(frozen=True)
class Step:
    """A command of the page, where it is typed, and what the page says that it prints."""

    machine: str
    command: str
    output: tuple[str, ...]


def steps(text: str) -> Iterator[Step]:
    """The commands of the page in order."""
    for block in BLOCK.findall(text):
        lines = block.splitlines()
        commands = [(match, place) for place, line in enumerate(lines) if (match := COMMAND.match(line))]
        ends = [place for _, place in commands[1:]] + [len(lines)]
        assert commands[0][1] == 0, block
        for (match, place), end in zip(commands, ends, strict=True):
            yield Step(match[1], match[2], tuple(lines[place + 1 : end]))


def pattern(output: tuple[str, ...]) -> "re.Pattern[str]":
    """What *output* stands for: … within a line is any text, on a line of its own any lines, and spaces are equal."""
    parts = []
    for line in output:
        words = [r"[^\n]*?".join(map(re.escape, word.split("…"))) for word in line.split()]
        parts.append(r"(?:[^\n]*\n)*?" if line.strip() == "…" else r"[ ]*" + r"[ ]+".join(words) + r"[ ]*(?:\n|$)")
    return re.compile("".join(parts))


@dataclass
class Machine:
    """A folder that stands for a machine: its own home, its own name, the same program."""

    folder: Path
    environ: dict[str, str]
    running: list[tuple["subprocess.Popen[str]", Path]] = field(default_factory=list)

    def start(self, command: str) -> None:
        """Start *command*; its output goes to a file."""
        file = self.folder / f"output-{len(self.running)}"
        with file.open("w") as output:
            process = subprocess.Popen(
                ["bash", "-c", f"exec {command}"],
                cwd=self.folder,
                env=self.environ,
                stdout=output,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )
        self.running.append((process, file))

    def printed(self, output: tuple[str, ...], after: int = 0) -> None:
        """Wait until the newest process has printed *output* after so many characters."""
        process, file = self.running[-1]
        matches = pattern(output).match
        try:
            until(lambda: bool(matches(file.read_text()[after:])), SECONDS_MAX)
        except TimeoutError:
            raise AssertionError(f"{process.args} did not print {output}:\n{file.read_text()[-3000:]}") from None

    def stop(self) -> int:
        """Type Ctrl-C to the newest process that runs; how much it had printed before."""
        process, file = self.running[-1]
        before = len(file.read_text())
        process.send_signal(signal.SIGINT)
        assert process.wait(SECONDS_MAX) == 0, file.read_text()
        return before


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[dict[str, Machine]]:
    """The machines of the page; nothing of them runs afterwards."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    programs = checkout(tmp_path / "programs") / ".venv" / "bin"
    (programs / "scp").write_text(f'#!/bin/sh\nexec cp "$1" "{tmp_path}/${{2%:}}/"\n')
    (programs / "ssh").write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F "{tmp_path}/sshd/client" "$@"\n')
    for name in ("scp", "ssh"):
        (programs / name).chmod(0o755)
    made = dict[str, Machine]()
    for name in ("desk", "attic", "rented", "laptop"):
        folder = tmp_path / name
        (folder / "data").mkdir(parents=True)
        environ = {key: value for key, value in os.environ.items() if not key.startswith("RINGRIFT_")}
        environ |= {"PATH": f"{programs}:{environ['PATH']}", "RINGRIFT_NODE_ID": name, "RINGRIFT_P2P_PORT": str(port)}
        made[name] = Machine(folder, environ)
    (tmp_path / "desk" / "data" / "ringrift.toml").write_text(QUICK)
    yield made
    for machine in made.values():
        for process, _ in machine.running:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def write_hosts(folder: Path, port: int) -> None:
    """The file of hosts of the page, for the server of this test."""
    common = f"ssh_host: 127.0.0.1, ssh_port: {port}, ssh_user: {getpass.getuser()}, ssh_key: {folder}/sshd/own"
    rows = [
        f"  {name}: {{{common}, ringrift_path: {checkout(folder / f'far-{name}')}}}\n" for name in ("attic", "rented")
    ]
    (folder / "desk" / "hosts.yaml").write_text("hosts:\n" + "".join(rows))


@pytest.mark.timeout(300)
@NEEDS_SSHD
def test_every_command_of_the_page_does_what_the_page_says(
    machines: dict[str, Machine], ssh_server: SshServer, tmp_path: Path
) -> None:
    """From one machine to three, and back."""
    write_hosts(tmp_path, ssh_server.port)
    port = machines["desk"].environ["RINGRIFT_P2P_PORT"]
    text = PAGE.read_text(encoding="utf-8").replace("desk:8770", f"localhost:{port}").replace(":8770", f":{port}")
    typed = 0
    for step in steps(text):
        machine, typed = machines[step.machine], typed + 1
        if step.command == "^C":
            machine.printed(step.output, machine.stop())
        elif step.command == "kill -9 COORDINATOR":
            before = len(machine.running[-1][1].read_text())
            machine.running[-2][0].kill()
            machine.printed(step.output, before)
        elif FOREGROUND.match(step.command):
            machine.start(step.command)
            machine.printed(step.output)
        else:
            ended = subprocess.run(
                ["bash", "-c", step.command],
                cwd=machine.folder,
                env=machine.environ,
                capture_output=True,
                text=True,
                timeout=SECONDS_MAX,
            )
            output = ended.stdout + ended.stderr
            assert ended.returncode == 0, f"{step.command}: {output}"
            assert pattern(step.output).match(output), f"{step.command}: {output}\n{step.output}"

    assert typed > 25
    leftovers = [
        process.args for machine in machines.values() for process, _ in machine.running if process.poll() is None
    ]
    assert leftovers == []


def test_the_page_shows_every_command_of_a_cluster() -> None:
    """Each is typed somewhere on it."""
    typed = {step.command.split()[1] for step in steps(PAGE.read_text()) if step.command.startswith("ringrift ")}

    assert typed >= {"up", "certs", "coordinator", "nodes", "join", "leave", "why"}
