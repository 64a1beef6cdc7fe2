"""The embedded node: one per program, several programs on one home, and a clean end in every case."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

SECONDS_MAX = 20.0
EXIT_SECONDS_MAX = 5.0


def start(code: str, home: Path) -> "subprocess.Popen[str]":
    """A script that runs by itself on *home*, where every warning is an error."""
    environ = os.environ | {"RINGRIFT_HOME": str(home)}
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", code], env=environ, stdin=pipe, stdout=pipe, stderr=pipe, text=True
    )


def run(code: str, home: Path) -> str:
    """Run *code* as a script; it must exit with 0 and an empty stderr. Returns its output."""
    script = start(code, home)
    out, err = script.communicate(timeout=SECONDS_MAX)
    assert (script.returncode, err) == (0, "")
    return out


PUBLISH = """
from app.coordination.event_router import get_router
get_router().subscribe("EVENT_A", print)
for number in range(20):
    get_router().publish("EVENT_A", {"n": number})
"""
RECENT = """
from app.coordination.event_router import get_router
print([event.payload["n"] for event in get_router().get_recent_events(event_type="EVENT_A")])
"""


@pytest.mark.parametrize("end", ["", "import sys; sys.exit(0)", "import asyncio; asyncio.run(asyncio.sleep(0))"])
def test_a_script_that_just_ends_is_clean_and_loses_nothing(tmp_path: Path, end: str) -> None:
    """Without a shutdown and without a single await, everything that was accepted is in the log."""
    run(f"{PUBLISH}\n{end}", tmp_path)

    assert run(RECENT, tmp_path) == f"{list(range(20))}\n"


def test_the_end_of_a_script_is_quick(tmp_path: Path) -> None:
    """Nothing of ours keeps a program that is over."""
    began = time.monotonic()
    run(PUBLISH, tmp_path)

    assert time.monotonic() - began < EXIT_SECONDS_MAX


COST = """
import resource
used = resource.getrusage(resource.RUSAGE_SELF)
print(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
"""


@pytest.mark.parametrize(
    ("code", "seconds_max", "megabytes_max"),
    [
        ("import app.coordination", 0.150, 40.0),
        ("from app.coordination import get_router; get_router().publish_sync('EVENT_A', {})", 0.300, 40.0),
    ],
    ids=["import", "first durable publish"],
)
def test_starting_costs_little(tmp_path: Path, code: str, seconds_max: float, megabytes_max: float) -> None:
    """From the start of the interpreter, the best of five: processor time, and memory on top of a bare interpreter."""
    bare = float(run(COST, tmp_path).split()[1])
    costs = [run(f"{code}\n{COST}", tmp_path / str(number)).split() for number in range(5)]

    assert min(float(seconds) for seconds, _ in costs) <= seconds_max
    assert min(float(megabytes) for _, megabytes in costs) - bare <= megabytes_max


SUBSCRIBE = """
import sys, threading
from app.coordination.event_router import get_router
received = threading.Event()
def handle(event):
    print(event.event_type, event.payload, flush=True)
    received.set()
get_router().subscribe("EVENT_A", handle)
print("ready", flush=True)
received.wait(15)
"""


def test_two_programs_on_one_home_exchange_events(tmp_path: Path) -> None:
    """Neither needs to be the coordinator, and both that run the same code receive the event."""
    subscribers = [start(SUBSCRIBE, tmp_path) for _ in range(2)]
    for subscriber in subscribers:
        assert subscriber.stdout is not None
        line = subscriber.stdout.readline()
        assert line == "ready\n", subscriber.communicate(timeout=SECONDS_MAX)

    run("from app.coordination.event_router import publish_sync; publish_sync('EVENT_A', {'n': 1})", tmp_path)

    for subscriber in subscribers:
        out, err = subscriber.communicate(timeout=SECONDS_MAX)
        assert (out, err, subscriber.returncode) == ("EVENT_A {'n': 1}\n", "", 0)


def test_a_program_works_beside_a_coordinator(tmp_path: Path) -> None:
    """A coordinator on the same home does not keep a program from publishing and subscribing."""
    code = f"""
import asyncio
from ringrift_compat.embedded_node import embedded
from ringrift_compat.variables import read_settings
from ringrift.store.open import only_coordinator
with only_coordinator(read_settings().settings.store, "other"):
    {PUBLISH.strip().replace(chr(10), chr(10) + "    ")}
"""
    run(code, tmp_path)

    assert run(RECENT, tmp_path) == f"{list(range(20))}\n"


def test_a_program_that_was_killed_leaves_nothing_behind(tmp_path: Path) -> None:
    """Its readers do not hold the log, and the next one with the same callbacks starts with what comes."""
    killed = start(SUBSCRIBE, tmp_path)
    assert killed.stdout is not None
    assert killed.stdout.readline() == "ready\n"
    killed.kill()
    killed.communicate(timeout=SECONDS_MAX)
    run("from app.coordination.event_router import publish_sync; publish_sync('EVENT_A', {'n': 1})", tmp_path)

    subscriber = start(SUBSCRIBE, tmp_path)
    assert subscriber.stdout is not None
    assert subscriber.stdout.readline() == "ready\n"
    run("from app.coordination.event_router import publish_sync; publish_sync('EVENT_A', {'n': 2})", tmp_path)
    out, err = subscriber.communicate(timeout=SECONDS_MAX)

    assert (out, err) == ("EVENT_A {'n': 2}\n", "")
    readers = """
from ringrift_compat.embedded_node import embedded
async def places(store):
    async with store.read() as view:
        return list(await view.positions())
print(embedded.call(places(embedded.node().store)))
"""
    assert run(readers, tmp_path) == "[]\n"


def test_a_forked_child_has_a_node_of_its_own(tmp_path: Path) -> None:
    """It starts afresh, and neither it nor its parent loses anything."""
    code = """
import os
from app.coordination.event_router import get_router
get_router().publish_sync("EVENT_A", {"n": 1})
child = os.fork()
if not child:
    get_router().publish_sync("EVENT_A", {"n": 2})
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
get_router().publish_sync("EVENT_A", {"n": 3})
"""
    run(code, tmp_path)

    assert run(RECENT, tmp_path) == "[1, 2, 3]\n"


def test_an_unusable_home_raises_until_it_is_repaired(tmp_path: Path) -> None:
    """Each attempt to open it raises the reason, and the first one after the repair works."""
    code = """
import os
from app.coordination.event_router import get_router
os.environ["RINGRIFT_COORDINATOR_DB"] = "/dev/null/store.db"
for _ in range(2):
    try:
        get_router().publish("EVENT_A", {})
    except OSError as wrong:
        print(type(wrong).__name__)
del os.environ["RINGRIFT_COORDINATOR_DB"]
print(get_router().publish_sync("EVENT_A", {}).event_type)
"""
    assert run(code, tmp_path) == "NotADirectoryError\nNotADirectoryError\nEVENT_A\n"
