"""Members: processes of a cluster that one command starts, here or over ssh, reads, and ends with itself."""

import asyncio
import os
import shlex
import signal
import sys
from argparse import Namespace
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random, SystemRandom

from ringrift.cluster.hosts import Host
from ringrift.cluster.keys import TOKEN_SECONDS, WORKER, JoinToken, store_token
from ringrift.environment import take_token
from ringrift.kernel.errors import ChildDied, printable
from ringrift.store.ports import Store
from ringrift.sync.transports.ssh_command import pin_options
from ringrift.wire.address import Address
from ringrift.wire.keys import make_token

# The first line of the input is for the member, a token, so that no list of processes shows it.  The end of the input
# ends the member: also when the process that started it was killed, or the connection to it broke.
_HOLD = """exec 3<&0; IFS= read -r secret <&3
printf '%s\\n' "$secret" | "$@" 3<&- & member=$!
{ cat <&3; kill -TERM $member; } >/dev/null 2>&1 & watch=$!
wait $member; code=$?; kill $watch 2>/dev/null; exit $code"""
# The folder of a checkout, or any other; a path that begins with ~ is meant there, not here.
_ENTER = """folder=$1; shift; case $folder in "~"/*) folder=$HOME/${folder#??};; "~") folder=$HOME;; esac
cd -- "$folder" || exit; PATH="$PWD/.venv/bin:$PATH"; export PATH
"""
_ANY_JOB_WORKERS = 2  # as many as a run on one machine has
_LINE_BYTES_MAX, _LINE_CHARACTERS_MAX = 64 * 1024, 500
_KILL_SECONDS_MAX = 5.0
_TUNNEL_PORTS = (20_000, 32_000)  # at the other end, below those that systems give to connections
_SSH_OPTIONS = ("BatchMode=yes", "ConnectTimeout=15", "ServerAliveInterval=15", "ServerAliveCountMax=4")


class _MemberProcess:
    """A process of the cluster called *name*.  Every line that it prints goes to *on_line*."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, on_line: Callable[[str, str], None]) -> None:
        self.name, self._process, self._on_line = name, process, on_line
        self.ended = asyncio.create_task(self._read(), name=f"member:{name}")  #: Its exit code, at its end.

    @classmethod
    async def start(
        cls, name: str, argv: Sequence[str], secret: str, on_line: Callable[[str, str], None]
    ) -> "_MemberProcess":
        """Start *argv*, whose input begins with *secret*.  Raises ChildDied if it cannot be started."""
        take_token()  # no member inherits it
        pipe, errors = asyncio.subprocess.PIPE, asyncio.subprocess.STDOUT
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=pipe,
                stdout=pipe,
                stderr=errors,
                start_new_session=True,
                limit=_LINE_BYTES_MAX,
            )
        except OSError as error:
            raise ChildDied(f"cannot start {name}: {argv[0]}: {error.strerror}") from error
        assert process.stdin is not None
        process.stdin.write(f"{secret}\n".encode())
        return cls(name, process, on_line)

    async def _read(self) -> int:
        assert self._process.stdout is not None
        while True:
            try:
                line = await self._process.stdout.readline()
            except ValueError:  # too long for a line of ours
                continue
            if not line:
                return await self._process.wait()
            text = printable(line.decode(errors="replace").rstrip(), _LINE_CHARACTERS_MAX)
            if text:
                self._on_line(self.name, text)

    def describe_end(self) -> str:
        """How it ended."""
        code = self._process.returncode or 0
        return f"signal {-code}" if code < 0 else f"exit code {code}"

    async def stop(self, seconds_max: float) -> None:
        """Ask it to end, by the end of its input; kill what is left of it after *seconds_max*."""
        try:
            assert self._process.stdin is not None
            self._process.stdin.close()
            await asyncio.wait((self.ended,), timeout=seconds_max)
        finally:
            if self._process.returncode is None:  # once it was reaped, its number may be another's
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._process.pid, signal.SIGKILL)
        await asyncio.wait((self.ended,), timeout=_KILL_SECONDS_MAX)


class MemberProcesses:
    """The members that run; those that end by themselves are told and not started again."""

    def __init__(self, on_line: Callable[[str, str], None], stop_seconds_max: float) -> None:
        self._on_line, self._stop_seconds_max = on_line, stop_seconds_max
        self.running: list[_MemberProcess] = []
        self._is_stopping = False

    @classmethod
    @asynccontextmanager
    async def open(
        cls, on_line: Callable[[str, str], None], stop_seconds_max: float
    ) -> AsyncIterator["MemberProcesses"]:
        """No member yet.  All end with the body, the first of them last."""
        members = cls(on_line, stop_seconds_max)
        try:
            yield members
        finally:
            members._is_stopping = True
            first, rest = members.running[:1], members.running[1:]
            for group in (rest, first):
                await asyncio.gather(*(member.stop(stop_seconds_max) for member in group))

    async def start(self, name: str, argv: Sequence[str], secret: str = "") -> _MemberProcess:
        """Start one more.  Raises ChildDied."""
        member = await _MemberProcess.start(name, argv, secret, self._on_line)
        self.running.append(member)
        member.ended.add_done_callback(lambda _: self._tell_end(member))
        return member

    def _tell_end(self, member: _MemberProcess) -> None:
        if not self._is_stopping:
            text = f"has ended ({member.describe_end()}) and is not started again; the others go on"
            self._on_line(member.name, text)


def own_command(*arguments: str, home: str | Path, settings: Mapping[str, object]) -> list[str]:
    """``ringrift`` with *arguments* in *home*, as a member of this machine."""
    pairs = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    own = ["env", f"RINGRIFT_HOME={home}", sys.executable, "-m", "ringrift", *arguments, *pairs]
    return ["sh", "-c", _HOLD, "sh", *own]


def common_arguments(options: Namespace, home: Path) -> list[str]:
    """The settings of this command, for a worker in a home of its own."""
    file = options.settings or (home / "ringrift.toml" if (home / "ringrift.toml").exists() else None)
    pairs = [word for pair in options.set for word in ("--set", pair)]
    return pairs + (["--settings", str(file)] if file else [])


def worker_name(node: str, number: int) -> str:
    """The name of a worker beside the coordinator *node*; no node of a run without workers is called so."""
    return f"{node}-w{number}"


def worker_command(
    home: Path, name: str, number: int, url: str, common: Sequence[str], settings: Mapping[str, object]
) -> list[str]:
    """The worker called *name*, the *number*-th of this machine: the first two do any job, the others play."""
    own = home / "workers" / name
    profile = "training_node" if number <= _ANY_JOB_WORKERS else "selfplay"
    fixed = {"node.id": name, "blobs.folder": own / "blobs", "store.path": own / "none.db"}
    join = ["join", url, "--token-file", "-", "--profile", profile, *common]
    return own_command(*join, home=own, settings={**settings, **fixed})


def ssh_command(
    host: Host, address: Address, ssh: Sequence[str], rng: Random, *, tunnel: bool, destination: str = ""
) -> list[str]:
    """The command that makes *host* a worker of the coordinator at *address*, with *tunnel* through ssh.

    It is reached at *destination*, otherwise at its first address, and may show no other key than those it lists.
    """
    settings = (*_SSH_OPTIONS, *pin_options(host.name, host.host_keys))
    options = [word for option in settings for word in ("-o", option)]
    options += ["-p", str(host.ssh_port)] + (["-i", str(Path(host.ssh_key).expanduser())] if host.ssh_key else [])
    url = str(address)
    if tunnel:
        port = rng.randrange(*_TUNNEL_PORTS)
        options += ["-o", "ExitOnForwardFailure=yes", "-R", f"127.0.0.1:{port}:{address.authority}"]
        url = str(Address(host="127.0.0.1", port=port, is_tls=address.is_tls))
    pairs = [word for key, value in host.settings().items() for word in ("--set", f"{key}={value}")]
    pairs += [word for pair in host.labels().items() for word in ("--label", "=".join(pair))]
    join = ["env", f"RINGRIFT_HOME=data/{host.name}", "ringrift", "join", url, "--token-file", "-"]
    remote = ["sh", "-c", _ENTER + _HOLD, "sh", host.ringrift_path or ".", *join, "--profile", host.profile, *pairs]
    return [*ssh, *options, "--", destination or host.destination, shlex.join(remote)]


async def make_member_token(store: Store, node: str, now: float, scopes: Sequence[str] = WORKER) -> str:
    """A token with which *node*, and no other, can join within the next minutes."""
    token = make_token(SystemRandom())
    terms = JoinToken(id="", digest=b"", scopes=tuple(scopes), expires=now + TOKEN_SECONDS, node=node)
    async with store.begin() as tx:
        await store_token(tx, token, terms, now)
    return token
