"""House rules about bans: time, chance, the environment, broad excepts and other doors stay where they belong."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator

import pytest

from tidy.source import Check, Finding, Source, at, calls, dotted, expect_none, imported, is_within, product, suite

R = "src/ringrift/"

# What reads the world, and the only places that may.  A home that ends in a slash is a folder.
HOMES: dict[str, tuple[str, ...]] = {
    "time.time": (R + "kernel/clock.py",),
    "time.time_ns": (R + "kernel/clock.py",),
    "time.monotonic": (R + "kernel/clock.py", R + "workers/"),
    "time.monotonic_ns": (R + "kernel/clock.py",),
    "time.perf_counter": (R + "kernel/clock.py",),
    "time.perf_counter_ns": (R + "kernel/clock.py",),
    "time.sleep": (R + "kernel/clock.py", R + "workload/fake.py"),
    "datetime.datetime.now": (),
    "datetime.datetime.utcnow": (),
    "datetime.datetime.today": (),
    "datetime.date.today": (),
    "random.SystemRandom": (R + "cli/", R + "wire/keys.py"),
    "uuid": (),
    "secrets": (),
    "os.urandom": (),
    "os.environ": (R + "environment.py", R + "workers/context.py"),
    "os.environb": (R + "environment.py",),
    "os.getenv": (R + "environment.py",),
    "os.putenv": (R + "environment.py",),
}
GENERATORS = ("random.Random", "random.SystemRandom")
UNSEEDED_HOMES = (R + "node.py", R + "cli/")
BROAD_HOMES = (
    R + "kernel/foreign.py",
    R + "bus/delivery.py",
    R + "coordinator/gate.py",
    R + "sync/peer_service.py",
    R + "supervision/supervisor.py",
    R + "work/runner.py",
    R + "workers/main.py",
    R + "threads.py",
)
WRITE_HOMES = (
    R + "blobs/folder.py",
    R + "work/launch/output.py",
    R + "work/spool.py",
    R + "workload/scratch.py",
    R + "workload/executable.py",
    R + "wire/keys.py",
    R + "cli/",
    R + "workers/",
)
SLEEP_HOMES = ("tests/wait.py",)
# SQLite binds values, not names: tables and columns of a file from elsewhere are quoted there, and nowhere else.
SQL_HOMES = (R + "workload/foreign_db.py", R + "sync/merge_child.py")

UNSAFE = (
    "pickle",
    "cloudpickle",
    "joblib",
    "marshal",
    "shelve",
    "yaml.load",
    "yaml.unsafe_load",
    "os.system",
    "os.popen",
)
UNSAFE_CALLS = ("eval", "exec", "asyncio.create_subprocess_shell")
MOCKS = ("unittest.mock", "mock", "pytest_mock")
BROAD = ("Exception", "BaseException")
SQL = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|DROP|REPLACE)\b")
WRITING = re.compile(r"(?=.*[wax+])[rwaxbt+]+")
# A waiver names a specific code; behind a dash or in a comment of its own stands a reason.
WAIVER = re.compile(r"#\s*(?:(?:ruff:\s*)?noqa|type:\s*ignore)\b")
CODED = re.compile(r"#\s*(?:(?:ruff:\s*)?noqa:\s*[A-Z]+\d+(?:,\s*[A-Z]+\d+)*|type:\s*ignore\[[\w, -]+\])")
REASON = re.compile(r"(?:-+|—|#)\s*\w.{2,}")


def strangers(source: Source) -> Iterator[Finding]:
    """Reads of the clock, of chance or of the environment outside their homes."""
    for name, node in imported(source):
        for banned, homes in HOMES.items():
            if is_within(name, banned) and not source.below(*homes):
                yield at(source, node, f"{name} outside its home")


def loose_chance(source: Source) -> Iterator[Finding]:
    """Functions of the module random, which share hidden state, and generators without a seed."""
    for name, node in imported(source):
        if is_within(name, "random") and name != "random" and not is_within(name, *GENERATORS):
            yield at(source, node, f"{name}: take a random.Random as a parameter")
    for name, call in calls(source):
        if name == "random.Random" and not source.below(*UNSEEDED_HOMES) and not (call.args or call.keywords):
            yield at(source, call, "random.Random() without a seed")


def broad_excepts(source: Source) -> Iterator[Finding]:
    """Handlers that catch everything; one for BaseException that ends by raising again catches nothing."""
    if source.below(*BROAD_HOMES):
        return
    for node in source.nodes:
        if isinstance(node, ast.ExceptHandler):
            caught = _caught(source, node)
            if "Exception" in caught or ("BaseException" in caught and not _raises_again(node)):
                yield at(source, node, f"catches {', '.join(caught)}")
    for name, call in calls(source):
        if name == "contextlib.suppress" and any(dotted(source, arg) in BROAD for arg in call.args):
            yield at(source, call, "suppresses everything")


def _caught(source: Source, node: ast.ExceptHandler) -> list[str]:
    if node.type is None:
        return ["BaseException"]
    kinds = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
    return [dotted(source, kind) for kind in kinds]


def _raises_again(node: ast.ExceptHandler) -> bool:
    last = node.body[-1]
    return node.type is not None and isinstance(last, ast.Raise) and last.exc is None


def unsafe(source: Source) -> Iterator[Finding]:
    """Ways to run what somebody else wrote."""
    for name, node in imported(source):
        if is_within(name, *UNSAFE):
            yield at(source, node, name)
    for name, call in calls(source):
        if name in UNSAFE_CALLS:
            yield at(source, call, f"{name}()")
        for word in call.keywords:
            if word.arg == "shell" and not (isinstance(word.value, ast.Constant) and word.value.value is False):
                yield at(source, word, "shell=True")


def built_sql(source: Source) -> Iterator[Finding]:
    """SQL put together from pieces: by an f-string, by + or %, or by format."""
    if source.below(*SQL_HOMES):
        return
    for node in source.nodes:
        match node:
            case ast.JoinedStr(values=pieces) if any(isinstance(piece, ast.FormattedValue) for piece in pieces):
                built = any(_is_sql(piece) for piece in pieces)
            case ast.BinOp(op=ast.Add() | ast.Mod()):
                built = any(_is_sql(side) for side in (node.left, node.right))
            case ast.Call(func=ast.Attribute(value=text, attr="format" | "join"), args=args):
                built = any(_is_sql(part) for arg in (text, *args) for part in getattr(arg, "elts", [arg]))
            case _:
                continue
        if built:
            yield at(source, node, "SQL built from pieces")


def _is_sql(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and SQL.match(node.value) is not None


def stray_writes(source: Source) -> Iterator[Finding]:
    """Files written where files are nobody's business."""
    if source.below(*WRITE_HOMES):
        return
    for name, call in calls(source):
        verb = name.split(".")[-1] or getattr(call.func, "attr", "")
        if verb in ("write_text", "write_bytes") or (verb in ("open", "fdopen") and _opens_to_write(name, call)):
            yield at(source, call, f"{verb} writes a file")


def _opens_to_write(name: str, call: ast.Call) -> bool:
    """Whether *call* opens a file to write, or says with what mode only at run time."""
    is_plain = name in ("open", "io.open", "os.fdopen")
    modes = [*call.args[1 if is_plain else 0 : 2], *_words(call, "mode")]
    if any(isinstance(mode, ast.Constant) and WRITING.fullmatch(str(mode.value)) for mode in modes):
        return True
    return is_plain and any(not isinstance(mode, ast.Constant) for mode in modes)


def sleeping_tests(source: Source) -> Iterator[Finding]:
    """Tests that sleep: any time.sleep, and asyncio.sleep for a fixed time other than 0."""
    if source.below(*SLEEP_HOMES):
        return
    for name, node in imported(source):
        if name == "time.sleep":
            yield at(source, node, "time.sleep: wait for a signal instead")
    for name, call in calls(source):
        if name == "asyncio.sleep" and any(_is_pause(arg) for arg in (*call.args[:1], *_words(call, "delay"))):
            yield at(source, call, "asyncio.sleep: wait for a signal instead")


def _is_pause(node: ast.expr) -> bool:
    """Whether *node* is fixed and not 0."""
    varies = any(isinstance(part, ast.Name | ast.Attribute | ast.Call) for part in ast.walk(node))
    return not varies and not (isinstance(node, ast.Constant) and node.value == 0)


def _words(call: ast.Call, *names: str) -> list[ast.expr]:
    return [word.value for word in call.keywords if word.arg in names]


def mocked(source: Source) -> Iterator[Finding]:
    """Mocks, and parts of ours replaced behind their backs.

    Replacing a name below ``app`` is allowed: that it works is one of the things the documented paths promise.
    """
    for name, node in imported(source):
        if is_within(name, *MOCKS):
            yield at(source, node, f"{name}: use a real implementation that passes the contract suite")
    for _, call in calls(source):
        if isinstance(call.func, ast.Attribute) and call.func.attr == "setattr" and call.args:
            first = call.args[0]
            target = str(first.value) if isinstance(first, ast.Constant) else dotted(source, first)
            if is_within(target, "ringrift"):
                yield at(source, call, f"replaces {target}")


def bare_waivers(source: Source) -> Iterator[Finding]:
    """Waivers for a tool that do not name the rule and the reason."""
    if WAIVER.search(source.text) is None:
        return  # most have none, and to read tokens takes long
    for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
        if token.type == tokenize.COMMENT and WAIVER.search(token.string):
            rest = CODED.sub("", token.string)
            if WAIVER.search(rest) or not REASON.search(rest):
                yield Finding(source.path, token.start[0], f"no code or no reason: {token.string}")


def test_time_chance_and_environment_stay_at_home() -> None:
    """Only the clock reads time, only the command line reads the environment, and nobody draws ids from the machine."""
    expect_none(strangers, product())


def test_chance_is_handed_in() -> None:
    """Nobody uses the functions of the module random, or makes a generator without a seed away from the start."""
    expect_none(loose_chance, product())


def test_errors_are_caught_by_name() -> None:
    """Only delivery, supervisor, runner and the worker's main catch everything."""
    expect_none(broad_excepts, product())


def test_nothing_foreign_is_executed() -> None:
    """The product holds no pickle, no eval and no shell."""
    expect_none(unsafe, product())


def test_sql_is_not_built() -> None:
    """SQL is whole where it stands; values reach it as parameters."""
    expect_none(built_sql, product())


def test_files_are_written_by_few() -> None:
    """Only the blob folder, the output of jobs, workloads, the command line and workers write files."""
    expect_none(stray_writes, product())


def test_tests_do_not_sleep() -> None:
    """Tests wait for signals; only wait_until sleeps."""
    expect_none(sleeping_tests, suite())


def test_tests_do_not_mock() -> None:
    """Tests use real parts, not mocks."""
    expect_none(mocked, suite())


def test_waivers_say_why() -> None:
    """Every noqa and every type: ignore names its rule and its reason."""
    expect_none(bare_waivers, product() + suite())


@pytest.mark.parametrize(
    ("check", "text"),
    [
        (strangers, "import time\ntime.time()"),
        (strangers, "import time as t\nf(t.monotonic)"),
        (strangers, "from time import perf_counter"),
        (strangers, "def f():\n    from time import sleep as nap\n    nap(1)"),
        (strangers, "import datetime\ndatetime.datetime.now()"),
        (strangers, "from datetime import datetime\ndatetime.utcnow()"),
        (strangers, "from datetime import date\ndate.today()"),
        (strangers, "import uuid"),
        (strangers, "from uuid import uuid4"),
        (strangers, "import secrets"),
        (strangers, "import os\nos.urandom(8)"),
        (strangers, "import os\nos.environ['HOME']"),
        (strangers, "from os import environ, getenv"),
        (strangers, "import random\nrandom.SystemRandom()"),
        (loose_chance, "import random\nrandom.random()"),
        (loose_chance, "from random import choice"),
        (loose_chance, "from random import Random\nRandom()"),
        (broad_excepts, "try:\n    f()\nexcept Exception:\n    raise"),
        (broad_excepts, "try:\n    f()\nexcept (KeyError, Exception) as e:\n    pass"),
        (broad_excepts, "try:\n    f()\nexcept:\n    raise"),
        (broad_excepts, "try:\n    f()\nexcept BaseException:\n    pass"),
        (broad_excepts, "try:\n    f()\nexcept* Exception:\n    pass"),
        (broad_excepts, "from contextlib import suppress\nwith suppress(Exception):\n    f()"),
        (unsafe, "import pickle"),
        (unsafe, "from joblib import load"),
        (unsafe, "import cloudpickle as c\nc.loads(b'')"),
        (unsafe, "import yaml\nyaml.load(text)"),
        (unsafe, "eval(text)"),
        (unsafe, "exec(text)"),
        (unsafe, "import subprocess\nsubprocess.run(x, shell=True)"),
        (unsafe, "import os\nos.system(x)"),
        (built_sql, "db.execute(f'SELECT * FROM {table}')"),
        (built_sql, "db.execute('DELETE FROM ' + table)"),
        (built_sql, "db.execute('UPDATE %s SET x = 1' % table)"),
        (built_sql, "db.execute('INSERT INTO {} VALUES (1)'.format(table))"),
        (built_sql, "db.execute(' '.join(['CREATE TABLE', name]))"),
        (stray_writes, "open(path, 'w')"),
        (stray_writes, "open(path, mode='ab')"),
        (stray_writes, "open(path, mode)"),
        (stray_writes, "path.open('r+')"),
        (stray_writes, "import os\nos.fdopen(handle, 'wb')"),
        (stray_writes, "path.write_text('')"),
        (stray_writes, "(folder / 'x').write_bytes(b'')"),
        (sleeping_tests, "import time\ntime.sleep(0)"),
        (sleeping_tests, "import asyncio\nasyncio.sleep(0.1)"),
        (sleeping_tests, "from asyncio import sleep\nsleep(-1 + 2)"),
        (mocked, "import unittest.mock"),
        (mocked, "from unittest import mock"),
        (mocked, "from unittest.mock import MagicMock"),
        (mocked, "import pytest_mock"),
        (mocked, "from ringrift import node\nmonkeypatch.setattr(node, 'open', x)"),
        (mocked, "monkeypatch.setattr('ringrift.node.Node', x)"),
        (bare_waivers, "x = 1  # noqa"),
        (bare_waivers, "x = 1  # noqa: E501"),
        (bare_waivers, "x = 1  # noqa - long"),
        (bare_waivers, "x = 1  # type: ignore"),
        (bare_waivers, "x = 1  # type: ignore[misc]"),
        (bare_waivers, "x = 1  # type: ignore  # because"),
        (bare_waivers, "x = 1  # type: ignore[misc]  # noqa: E501"),
        (bare_waivers, "x = 1  # noqa  # type: ignore[misc]  # because"),
        (bare_waivers, "# ruff: noqa"),
    ],
)
def test_the_bans_can_fail(check: Check, text: str) -> None:
    """Each ban finds something in a file that breaks it."""
    assert list(check(Source(R + "example.py", text)))


@pytest.mark.parametrize(
    ("check", "path", "text"),
    [
        (strangers, R + "kernel/clock.py", "import time\ntime.time()"),
        (strangers, R + "workload/fake.py", "import time\ntime.sleep(1)"),
        (strangers, R + "workers/main.py", "import time\ntime.monotonic()"),
        (strangers, R + "environment.py", "import os\nos.environ['HOME']"),
        (strangers, R + "bus/router.py", "import os\nenvelope.time.time\nos.getpid()\nuuid = secrets = 1"),
        (loose_chance, R + "bus/router.py", "from random import Random\nRandom(7).random()"),
        (loose_chance, R + "node.py", "import random\nrandom.Random()"),
        (broad_excepts, R + "bus/delivery.py", "try:\n    f()\nexcept Exception:\n    pass"),
        (broad_excepts, R + "bus/router.py", "try:\n    f()\nexcept BaseException:\n    close()\n    raise"),
        (unsafe, R + "bus/router.py", "model.eval()\nrun(argv, shell=False)"),
        (built_sql, R + "bus/router.py", "f('SELECT 1', x)\nf'Select {x}'\nraise E('CREATED ' + x)"),
        (stray_writes, R + "blobs/folder.py", "open(path, 'wb')"),
        (stray_writes, R + "bus/router.py", "open('w')\nopen(path, 'rb')\npath.open('r')\nNode.open(a, b)"),
        (sleeping_tests, "tests/wait.py", "import time\ntime.sleep(1)"),
        (sleeping_tests, "tests/unit/test_x.py", "import asyncio\nasyncio.sleep(0)\nasyncio.sleep(seconds)"),
        (mocked, "tests/unit/test_x.py", "import sys\nmonkeypatch.setattr(sys, 'argv', [])"),
        (bare_waivers, R + "bus/router.py", "x = 1  # noqa: N818, BLE001 - a signal"),
        (bare_waivers, R + "bus/router.py", "x = 1  # type: ignore[misc, arg-type]  # the stub is wrong"),
        (bare_waivers, R + "bus/router.py", "x = 1  # type: ignore[misc]  # noqa: E501 -- the stub is wrong"),
    ],
)
def test_the_bans_let_good_files_pass(check: Check, path: str, text: str) -> None:
    """Each ban finds nothing in a file that keeps it, or in a home."""
    assert not list(check(Source(path, text)))
