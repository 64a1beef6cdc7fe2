"""Forked programs: what parent, children and other programs on one home are told is published is in the log."""

import os
import subprocess
import sys
from pathlib import Path

import apsw

SECONDS_MAX = 60.0
COUNT = 400  # publishes of each process: enough for SQLite to write its log back several times

_BEGIN = """
import multiprocessing, os, sys, threading
from app.coordination.event_router import get_router
from ringrift_compat.embedded_node import embedded

def publish(who, count):
    for number in range(count):
        get_router().publish_sync("EVENT_A", {"who": who, "n": number})
    os.write(1, f"{who} {count}\\n".encode())  # at once: processes and threads share the pipe
"""


def start(code: str, home: Path) -> "subprocess.Popen[str]":
    """A program on *home*."""
    environ = os.environ | {"RINGRIFT_HOME": str(home)}
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-W", "error", "-c", _BEGIN + code], env=environ, stdout=pipe, text=True)


def acknowledged(*programs: "subprocess.Popen[str]") -> dict[str, int]:
    """How many publishes were acknowledged, by process."""
    lines: list[str] = []
    for program in programs:
        lines += program.communicate(timeout=SECONDS_MAX)[0].splitlines()
        assert program.returncode == 0
    return {who: int(count) for who, count in map(str.split, lines)}


def published(home: Path) -> dict[str, int]:
    """How many events of each process are in the log of a store that is whole."""
    [store] = home.rglob("*.db")
    db = apsw.Connection(str(store))
    assert db.execute("PRAGMA integrity_check(1)").fetchall() == [("ok",)]
    bodies = "SELECT json_extract(body, '$.payload.who') AS who, count(*) FROM log WHERE who IS NOT NULL GROUP BY who"
    counts = {str(who): int(str(count)) for who, count in db.execute(bodies)}
    db.close()
    return counts


def test_a_program_that_becomes_a_daemon_loses_nothing(tmp_path: Path) -> None:
    """Its child, whose parents have ended, and another program on the same home write at once."""
    daemon = """
publish("parent", 1)
read, write = os.pipe()
if os.fork():
    sys.exit(0)
if os.fork():
    os._exit(0)
os.close(write)
os.read(read, 1)  # until both have ended
publish("daemon", COUNT)
"""
    programs = [
        start(f"COUNT = {COUNT}\n{daemon}", tmp_path),
        start(f'publish("other", {COUNT})\nsys.exit(0)', tmp_path),
    ]

    counts = acknowledged(*programs)

    assert counts == {"parent": 1, "daemon": COUNT, "other": COUNT}
    assert published(tmp_path) == counts


def test_a_pool_of_forked_processes_publishes_beside_its_parent(tmp_path: Path) -> None:
    """Children that are forked while threads of the parent publish have nodes of their own."""
    pool = """
publish("first", 1)
busy = [threading.Thread(target=publish, args=(f"thread{number}", 100)) for number in range(2)]
for thread in busy:
    thread.start()
context = multiprocessing.get_context("fork")
children = [context.Process(target=publish, args=(f"child{number}", 20)) for number in range(4)]
for child in children:
    child.start()
for part in (*children, *busy):
    part.join()
assert [child.exitcode for child in children] == [0, 0, 0, 0]
"""
    counts = acknowledged(start(pool, tmp_path))

    assert counts == {"first": 1} | {f"thread{n}": 100 for n in range(2)} | {f"child{n}": 20 for n in range(4)}
    assert published(tmp_path) == counts


def test_children_that_publish_nothing_disturb_no_one(tmp_path: Path) -> None:
    """Workers that only compute, as those of a data loader, end without a trace."""
    loader = """
publish("before", 5)
with multiprocessing.get_context("fork").Pool(3) as pool:
    assert pool.map(abs, range(-50, 0)) == list(range(50, 0, -1))
    publish("beside", 5)
publish("after", 5)
"""
    counts = acknowledged(start(loader, tmp_path))

    assert counts == {"before": 5, "beside": 5, "after": 5}
    assert published(tmp_path) == counts


def test_a_child_does_not_wait_for_what_its_parent_has_accepted(tmp_path: Path) -> None:
    """The parent's node brings the result, in the parent; in the child asking for it raises."""
    code = """
import asyncio
from ringrift.kernel.errors import Unreachable
gate = threading.Event()
async def wait():
    await asyncio.to_thread(gate.wait)
pending = embedded.post(wait())
child = os.fork()
if not child:
    try:
        pending.result()
    except Unreachable:
        print("child 0", flush=True)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
gate.set()
pending.result()
"""
    assert acknowledged(start(code, tmp_path)) == {"child": 0}
