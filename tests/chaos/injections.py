"""Injections: each fault as a context that makes it happen, yields what has it, and mends it."""

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from random import Random

import psutil

from chaos.switches import read_history
from chaos.world import World

DAY_SECONDS = 86_400.0
_SETTLE_SECONDS_MAX = 20.0
_FORK_SECONDS_MAX = 150.0
_Injection = Callable[[World, str, Random], AbstractContextManager[int]]
_FREE_DESCRIPTORS_MAX = 2


@contextmanager
def _kill(world: World, name: str, rng: Random) -> Iterator[int]:
    pid = world.processes[name].pid
    world.kill(name)
    yield pid
    world.start(name)


@contextmanager
def _stop(world: World, name: str, rng: Random) -> Iterator[int]:
    process = world.processes[name].popen
    process.send_signal(signal.SIGSTOP)
    yield process.pid
    process.send_signal(signal.SIGCONT)


@contextmanager
def _stop_in_transaction(world: World, name: str, rng: Random) -> Iterator[int]:
    process = psutil.Process(world.processes[name].pid)
    world.switches[name].set("stop_in_transaction", 1)
    if not world.until(lambda: process.status() == psutil.STATUS_STOPPED, _SETTLE_SECONDS_MAX):
        world.log(f"{name} began no transaction")
    yield process.pid
    world.switches[name].set("stop_in_transaction", 0)
    process.resume()


@contextmanager
def _write_lock(world: World, name: str, rng: Random) -> Iterator[int]:
    command = [sys.executable, "-m", "chaos.lock", str(world.home.database)]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, env=environ, **pipes) as holder:
        assert holder.stdout is not None
        if holder.stdout.readline() != b"locked\n":
            world.log("the foreign program did not get the write lock")
        yield holder.pid
        holder.communicate()


@contextmanager
def _fork(world: World, name: str, rng: Random) -> Iterator[int]:
    process = world.processes[name].popen

    def forked() -> list[list[str]]:
        return [words for words in read_history(world.folder, f"{name}-{process.pid}.history") if words[0] == "forked"]

    world.until(lambda: world.is_ready(name), _SETTLE_SECONDS_MAX)
    before = len(forked())
    process.send_signal(signal.SIGUSR1)
    yield process.pid
    if not world.until(lambda: len(forked()) > before or process.poll() is not None, _FORK_SECONDS_MAX):
        world.fail(f"the forked children of {name} did not end within {_FORK_SECONDS_MAX:g} s")
    elif len(forked()) > before and set(forked()[-1][1:]) != {"0"}:
        world.fail(f"forked children of {name} ended with {forked()[-1][1:]}")


@contextmanager
def _no_descriptors(world: World, name: str, rng: Random) -> Iterator[int]:
    pid = world.processes[name].pid
    used = {int(number) for number in os.listdir(f"/proc/{pid}/fd")}
    free = next(number for number in range(len(used) + 1) if number not in used)
    _, hard = limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (free + rng.randint(0, _FREE_DESCRIPTORS_MAX), hard))
    yield pid
    if psutil.pid_exists(pid):
        resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)


def _fill(file: int) -> None:
    """Let *file* grow until its file system has no room: in large steps, then in small ones."""
    step = 1 << 30
    while step >= 4096:
        try:
            os.posix_fallocate(file, os.fstat(file).st_size, step)
        except OSError:
            step //= 2


@contextmanager
def _full(world: World, name: str, rng: Random) -> Iterator[int]:
    folder = world.store_folder if name == "store" else world.blob_folder
    filler = folder / "filler"
    with filler.open("wb") as file:
        _fill(file.fileno())
    world.log(f"{folder} has {os.statvfs(folder).f_bavail} free blocks")
    yield 0
    filler.unlink()


@contextmanager
def _read_only(world: World, name: str, rng: Random) -> Iterator[int]:
    def remount(mode: str) -> bool:
        command = ["mount", "-o", f"remount,{mode}", str(world.blob_folder)]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    if not world.until(lambda: remount("ro"), _SETTLE_SECONDS_MAX):  # refused while a file is open for writing
        world.log("the file system of the blobs stayed writable: it was never idle")
    yield 0
    if not remount("rw"):
        world.fail("the file system of the blobs cannot be made writable again")


@contextmanager
def _missing_folder(world: World, name: str, rng: Random) -> Iterator[int]:
    folder, elsewhere = world.blob_folder / name, world.blob_folder / f"{name}.elsewhere"
    folder.rename(elsewhere)
    yield world.processes[name].pid
    if folder.exists():
        world.fail(f"a folder was made in the place of the missing blob folder of {name}: {sorted(folder.iterdir())}")
        folder.rename(world.blob_folder / f"{name}.made{len(world.findings)}")
    elsewhere.rename(folder)


@contextmanager
def _empty_folder(world: World, name: str, rng: Random) -> Iterator[int]:
    """As an unmounted disk: the mount point is there, and empty."""
    folder, elsewhere = world.blob_folder / name, world.blob_folder / f"{name}.elsewhere"
    folder.rename(elsewhere)
    world.mount_point(name).rename(folder)
    yield world.processes[name].pid
    if files := [path for path in folder.rglob("*") if path.is_file()]:
        world.fail(f"{len(files)} files were written into the empty mount point of {name}")
    folder.rename(world.mount_point(name))
    elsewhere.rename(folder)


@contextmanager
def _no_workers(world: World, name: str, rng: Random) -> Iterator[int]:
    world.set_interpreter(name, rng.choice(("exit", "mode")))
    for child in psutil.Process(world.processes[name].pid).children(recursive=True):
        child.kill()  # those that run already would go on
    yield world.processes[name].pid
    world.set_interpreter(name, "exec")


@contextmanager
def _stuck_handler(world: World, name: str, rng: Random) -> Iterator[int]:
    world.switches[name].set("stuck", 1)
    yield world.processes[name].pid
    world.switches[name].set("stuck", 0)


@contextmanager
def _clock_step(world: World, name: str, rng: Random) -> Iterator[int]:
    world.switches[name].set("clock_offset", rng.choice((-DAY_SECONDS, DAY_SECONDS)))
    yield world.processes[name].pid
    world.switches[name].set("clock_offset", 0)


@contextmanager
def _store_errors(world: World, name: str, rng: Random) -> Iterator[int]:
    world.switches[name].set("store_errors", rng.choice((0.2, 0.5, 0.9)))
    yield world.processes[name].pid
    world.switches[name].set("store_errors", 0)


INJECTIONS: dict[str, _Injection] = {
    "kill": _kill, "down": _kill, "stop": _stop, "stop_in_transaction": _stop_in_transaction,
    "write_lock": _write_lock, "fork": _fork, "no_descriptors": _no_descriptors, "full_store": _full,
    "full_blobs": _full, "read_only_blobs": _read_only, "missing_folder": _missing_folder,
    "empty_folder": _empty_folder, "no_workers": _no_workers, "stuck_handler": _stuck_handler,
    "clock_step": _clock_step, "store_errors": _store_errors,
}  # fmt: skip
