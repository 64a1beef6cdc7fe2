"""The live view on a real terminal: what a person sees at the start, while it runs, after a resize and after Ctrl-C."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from tools.terminal import Session, Terminal

from e2e.processes import FAKE, PATIENCE_SECONDS, PROGRAM, Home

LEGEND = "Elo: over generation 0"
RUN = ("run", "--iterations", "0", "--variants", "hex8_2p,square8_3p")
Start = Callable[..., Session]


@pytest.fixture
def start(home: Home) -> Iterator[Start]:
    """Starts ``ringrift`` on a terminal; what still runs afterwards is killed."""
    sessions: list[Session] = []

    def begin(*words: str, columns: int = 80, lines: int = 30, **variables: str) -> Session:
        environ = {**os.environ, "RINGRIFT_HOME": str(home.path), "RINGRIFT_NODE_ID": "a", "TERM": "xterm", **variables}
        environ = {name: value for name, value in environ.items() if name not in ("COLUMNS", "LINES")}
        command = [sys.executable, "-c", PROGRAM.format(arm=""), *words]
        sessions.append(Session(command, environ, columns=columns, lines=lines))
        return sessions[-1]

    yield begin
    for session in sessions:
        session.close()


def has_drawn(screen: Terminal) -> bool:
    """Whether the view is there with a line that has a champion."""
    rows = screen.text().splitlines()
    has_champion = any(row.startswith("hex8_2p  ") and "generation" in row for row in rows)
    return LEGEND in screen.text() and "games/s" in screen.text() and has_champion


def has_redrawn(session: Session, before: int, _: Terminal) -> bool:
    """Whether the view was drawn twice since its output had *before* characters: once at the new size."""
    return session.output.count(LEGEND, before) >= 2


def test_the_view_fits_80_columns_and_survives_a_resize(start: Start) -> None:
    """No row is cut or wraps at 80 columns, narrower and wider it is drawn anew, and nothing of before is left."""
    session = start(*RUN)
    session.wait(has_drawn, PATIENCE_SECONDS)
    rows = session.screen.text().splitlines()
    table = rows[next(number for number, row in enumerate(rows) if row.startswith("hex8_2p  ")) :]
    assert not any(row.endswith("…") for row in table), "\n".join(rows)
    assert max(map(len, table)) < 80

    for columns, lines in ((60, 24), (150, 40), (100, 12), (80, 30)):
        before = len(session.output)
        session.resize(columns, lines)
        session.wait(partial(has_redrawn, session, before), PATIENCE_SECONDS)
        session.wait(has_drawn, PATIENCE_SECONDS)
        text = session.screen.text()
        assert text.count(LEGEND) == 1, text
        assert text.count("until Ctrl-C") == 1, text
        rows = [row for row in text.splitlines() if row.startswith("hex8_2p   ")]
        assert [" games" in row for row in rows] == [columns >= 100], text


def test_ctrl_c_leaves_no_rests(start: Start) -> None:
    """Of the view, of the key that the terminal echoes, or of the note that it stops: only lines that stay."""
    session = start(*RUN)
    session.wait(has_drawn, PATIENCE_SECONDS)

    session.type("\x03")
    session.wait(seconds=PATIENCE_SECONDS)

    text = session.screen.text(history=True)
    assert session.process.returncode == 130, text
    assert "stopping: running jobs go back to the queue" in session.output
    for rest in ("^C", LEGEND, "until Ctrl-C", "█", "·", "stopping:"):
        assert rest not in text, (rest, text)
    assert "(stopped early" in text
    assert re.search(r"^hex8_2p: training started", text, re.MULTILINE), "lines that stay begin in the first column"


def test_colour_is_off_where_it_is_not_wanted(start: Start) -> None:
    """NO_COLOR takes it, and a dumb terminal gets lines instead of a table, without one code."""
    plain = start(*RUN, NO_COLOR="1")
    plain.wait(has_drawn, PATIENCE_SECONDS)
    plain.process.send_signal(signal.SIGTERM)
    plain.wait(seconds=PATIENCE_SECONDS)
    coloured = start(*RUN)
    coloured.wait(has_drawn, PATIENCE_SECONDS)
    coloured.process.send_signal(signal.SIGTERM)
    coloured.wait(seconds=PATIENCE_SECONDS)
    dumb = start("run", "--iterations", "1", "--variants", "hex8_2p", TERM="dumb")
    dumb.wait(seconds=PATIENCE_SECONDS)

    assert not re.search(r"\x1b\[[0-9;]*m", plain.output)
    assert "\x1b[36m" in coloured.output
    assert "\x1b" not in dumb.output


def test_the_first_failure_is_on_the_screen_at_once(home: Home, start: Start) -> None:
    """Before the job is given up: what failed, where, and the command that shows all of it; then it is counted."""
    (home.path / "ringrift.toml").write_text(FAKE + "[work.params]\nfake_crash = 'first'\nfake_stage = 'train'\n")
    session = start(*RUN, columns=150)

    session.wait(lambda screen: "failed attempts: " in screen.text(), PATIENCE_SECONDS)

    text = session.screen.text(history=True)
    assert re.search(r"^FAILED: train (hex8_2p|square8_3p) on a(-\d)?: ", text, re.MULTILINE), text
    assert re.search(r"^  see:  ringrift jobs show \w+$", text, re.MULTILINE), text
    assert text.count("FAILED: train") == 1


@pytest.mark.parametrize("lines", [0, 3])
def test_a_broken_pipe_ends_a_run_quietly(home: Home, lines: int) -> None:
    """As with ``ringrift run | head``: exit 0, no traceback, and no worker is left."""
    command = [sys.executable, "-c", PROGRAM.format(arm=""), *RUN, "--plain"]
    environ = {**os.environ, "RINGRIFT_HOME": str(home.path), "RINGRIFT_NODE_ID": "a"}
    process = subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    home.started.append(process)
    assert process.stdout is not None
    for _ in range(lines):
        assert process.stdout.readline()
    process.stdout.close()

    process.wait(PATIENCE_SECONDS)

    assert process.stderr is not None
    with process.stderr as errors:
        assert (process.returncode, errors.read()) == (0, "")
    assert home.orphans() == []


FIRST_PRINT = """
import builtins, sys
from ringrift.cli.main import main
show = builtins.print
def first(*words, **options):
    builtins.print = show
    show(*words, "|", sorted(set(sys.modules) & {"asyncio", "ringrift.harness", "ringrift.cli.command"}), flush=True)
builtins.print = first
main(sys.argv[1:])
"""


def test_a_run_says_that_it_starts_before_it_loads_anything(home: Home) -> None:
    """Loading takes a second on a busy machine: the first line comes before it, but not before help."""
    process = home.launch(FIRST_PRINT, "run", "--variants", "nonsense")
    output, _ = process.communicate(timeout=PATIENCE_SECONDS)

    assert re.match(r"ringrift \S+: starting run … \| \[\]\n", output), output
    assert process.returncode == 2
    assert "starting" not in home.run("run", "--help")[1]
