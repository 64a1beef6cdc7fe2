"""The ambient node: one for a program, several programs on one home, and a clean end whatever the script does."""

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
    """What a script prints that must end well and say nothing else."""
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


LISTEN = """
import sys, threading
from app.coordination.event_router import get_router
heard = threading.Event()
def listen(event):
    print(event.event_type, event.payload, flush=True)
    heard.set()
get_router().subscribe("EVENT_A", listen)
print("ready", flush=True)
heard.wait(15)
"""


def test_two_programs_on_one_home_hear_each_other(tmp_path: Path) -> None:
    """Neither needs to be the coordinator, and both that run the same code are told."""
    listeners = [start(LISTEN, tmp_path) for _ in range(2)]
    for listener in listeners:
        assert listener.stdout is not None
        assert listener.stdout.readline() == "ready\n"

    run("from app.coordination.event_router import publish_sync; publish_sync('EVENT_A', {'n': 1})", tmp_path)

    for listener in listeners:
        out, err = listener.communicate(timeout=SECONDS_MAX)
        assert (out, err, listener.returncode) == ("EVENT_A {'n': 1}\n", "", 0)


def test_a_program_works_beside_a_coordinator(tmp_path: Path) -> None:
    """Whoever holds the home as its coordinator does not keep a program from publishing and listening."""
    code = f"""
import asyncio
from ringrift_compat.ambient import ambient
from ringrift.cli.environment import effective
from ringrift.store.open import only_coordinator
with only_coordinator(effective().settings.store, "other"):
    {PUBLISH.strip().replace(chr(10), chr(10) + "    ")}
"""
    run(code, tmp_path)

    assert run(RECENT, tmp_path) == f"{list(range(20))}\n"


def test_a_program_that_was_killed_leaves_nothing_behind(tmp_path: Path) -> None:
    """Its readers do not hold the log, and the next one with the same callbacks starts with what comes."""
    killed = start(LISTEN, tmp_path)
    assert killed.stdout is not None
    assert killed.stdout.readline() == "ready\n"
    killed.kill()
    killed.communicate(timeout=SECONDS_MAX)
    run("from app.coordination.event_router import publish_sync; publish_sync('EVENT_A', {'n': 1})", tmp_path)

    listener = start(LISTEN, tmp_path)
    assert listener.stdout is not None
    assert listener.stdout.readline() == "ready\n"
    run("from app.coordination.event_router import publish_sync; publish_sync('EVENT_A', {'n': 2})", tmp_path)
    out, err = listener.communicate(timeout=SECONDS_MAX)

    assert (out, err) == ("EVENT_A {'n': 2}\n", "")
    readers = """
from ringrift_compat.ambient import ambient
async def places(store):
    async with store.read() as view:
        return list(await view.places())
print(ambient.call(places(ambient.node().store)))
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


def test_a_home_that_cannot_be_used_raises_and_may_be_mended(tmp_path: Path) -> None:
    """Opening tells what is wrong, every time it is tried, and works once it is right."""
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
