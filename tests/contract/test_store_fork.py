"""Forks: no child inherits a connection, a lock or a socket, and none writes with its parent's notes of locks."""

import subprocess
import sys
from pathlib import Path

import apsw

SECONDS_MAX = 30.0

_BEGIN = """
import asyncio, ctypes, gc, os, signal, sys
from pathlib import Path
from ringrift.child import Child
from ringrift.events.base import Envelope
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.errors import RingriftError
from ringrift.kernel.settings import StoreSettings
from ringrift.store.open import only_coordinator, open_store

SETTINGS = StoreSettings(path=sys.argv[1])

async def append(store, id):
    async with store.begin() as tx:
        await tx.append([Envelope(id=id, name="custom.published", body=b"{}")])

async def append_anew(id):
    async with open_store(SETTINGS, SystemClock()) as store:
        await append(store, id)

async def positions(store):
    async with store.read() as view:
        return await view.positions()

def outcome(attempt):
    try:
        asyncio.run(attempt)
        return "done"
    except RingriftError as refused:
        return type(refused).__name__

def fork(call, fork=os.fork):
    sys.stdout.flush()
    child = fork()
    if not child:
        signal.alarm(5)  # one that hangs is ended
        call()
        sys.stdout.flush()
        os._exit(0)
    return child

def end(child):
    assert os.waitpid(child, 0)[1] == 0

def use_all(store):
    print(outcome(append(store, "old")), outcome(positions(store)), outcome(append_anew("child")))
"""


def run(code: str, store: Path) -> list[str]:
    """Run *code* as a program on *store*, where every warning is an error; the lines that it printed."""
    line = [sys.executable, "-W", "error", "-c", _BEGIN + code, str(store)]
    ended = subprocess.run(line, capture_output=True, text=True, timeout=SECONDS_MAX)
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout.splitlines()


def events(store: Path) -> list[str]:
    """The ids in the log of a store that is whole."""
    db = apsw.Connection(str(store))
    assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    ids = [id for (id,) in db.execute("SELECT id FROM log ORDER BY position")]
    db.close()
    return ids


def test_a_child_opens_the_store_anew(tmp_path: Path) -> None:
    """Forked while nothing goes on, a child cannot use its parent's store, but one of its own; so can the parent."""
    code = """
async def main():
    async with open_store(SETTINGS, SystemClock()) as store:
        await append(store, "before")
        await positions(store)
        end(fork(lambda: use_all(store)))
        await append(store, "after")
        assert await positions(store) == {}
asyncio.run(main())
"""
    assert run(code, tmp_path / "store.db") == ["Unreachable Unreachable done"]
    assert events(tmp_path / "store.db") == ["before", "child", "after"]


def test_a_child_that_was_forked_in_a_transaction_refuses_the_file(tmp_path: Path) -> None:
    """It leaves the transaction to its parent, opens nothing, and its own end closes nothing."""
    code = """
async def main():
    def use_and_end(tx):
        use_all(store)
        print(outcome(tx.append([Envelope(id="third", name="custom.published", body=b"{}")])), flush=True)
        gc.collect()
        ctypes.pythonapi.Py_Exit(0)  # the whole end of a program, with all that it closes
    async with open_store(SETTINGS, SystemClock()) as store:
        async with store.begin() as tx:
            await tx.append([Envelope(id="first", name="custom.published", body=b"{}")])
            end(fork(lambda: use_and_end(tx)))
            await tx.append([Envelope(id="second", name="custom.published", body=b"{}")])
        await append(store, "after")
asyncio.run(main())
"""
    assert run(code, tmp_path / "store.db") == ["Unreachable Unreachable Unreachable", "Unreachable"]
    assert events(tmp_path / "store.db") == ["first", "second", "after"]


def test_a_child_that_was_forked_during_a_read_refuses_the_file(tmp_path: Path) -> None:
    """A view cannot be closed below its reader, so the child has no way to the file."""
    code = """
async def main():
    async with open_store(SETTINGS, SystemClock()) as store:
        async with store.read() as view:
            await view.positions()
            end(fork(lambda: use_all(store)))
            await view.positions()
        await append(store, "after")
asyncio.run(main())
"""
    assert run(code, tmp_path / "store.db") == ["Unreachable Unreachable Unreachable"]
    assert events(tmp_path / "store.db") == ["after"]


def test_a_fork_behind_the_back_of_python_is_noticed(tmp_path: Path) -> None:
    """No hook runs where a library forks: a connection remembers the process that it belongs to."""
    code = """
async def main():
    async with open_store(SETTINGS, SystemClock()) as store:
        await append(store, "before")
        await positions(store)
        end(fork(lambda: use_all(store), ctypes.PyDLL(None).fork))
        await append(store, "after")
asyncio.run(main())
"""
    assert run(code, tmp_path / "store.db") == ["Unreachable Unreachable Unreachable"]
    assert events(tmp_path / "store.db") == ["before", "after"]


def test_a_child_has_no_file_and_no_socket_of_its_parents_store(tmp_path: Path) -> None:
    """Neither the database nor the coordinator's lock nor the socket for wake-ups stays open in it."""
    code = """
def left():
    own = {os.readlink(entry) for entry in Path("/proc/self/fd").iterdir() if os.path.lexists(entry)}
    lines = Path("/proc/net/unix").read_text().splitlines()
    bound = {f"socket:[{line.split()[6]}]" for line in lines if "/ringrift-" in line}
    return sorted(name for name in own if name.startswith(os.path.dirname(SETTINGS.path)) or name in bound)
async def main():
    with only_coordinator(SETTINGS, "n1"):
        async with open_store(SETTINGS, SystemClock()) as store:
            await append(store, "before")
            await positions(store)
            assert len(left()) > 3, left()
            end(fork(lambda: print(left())))
            assert len(left()) > 0
asyncio.run(main())
"""
    assert run(code, tmp_path / "store.db") == ["[]"]


def test_a_child_does_not_keep_the_lock_of_a_coordinator_that_died(tmp_path: Path) -> None:
    """The lock ends with its holder, whatever children are left."""
    code = """
read, write = os.pipe()
begun, begin = os.pipe()
holder = os.fork()
if not holder:
    with only_coordinator(SETTINGS, "n1"):
        if os.fork():
            os.read(begun, 1)
            os._exit(0)
        os.write(begin, b"!")
        os.close(write)
        os.read(read, 1)
        os._exit(0)
end(holder)
with only_coordinator(SETTINGS, "n2"):
    print("held")
os.close(write)
"""
    assert run(code, tmp_path / "store.db") == ["held"]


def test_children_that_are_programs_do_not_close_the_store(tmp_path: Path) -> None:
    """Starting a worker runs no hook of ours: nothing has to be closed for a child that becomes another program."""
    code = """
os.register_at_fork(before=lambda: print("forked"))
async def main():
    child = await Child.start("child", ["/bin/true"], line_bytes_max=1000)
    await child.end(5.0)
    child = fork(lambda: None)
    end(child)
asyncio.run(main())
"""
    assert run(code, tmp_path / "store.db") == ["forked"]
