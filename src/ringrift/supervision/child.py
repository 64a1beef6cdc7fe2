"""A daemon that is a program: foreign or blocking code as a child of the node, heard over a pipe.

    node ── {"daemon": …, "node": …, "settings": {…}} ──▶ program              (one line on stdin, which stays open)
    node ◀── ready · alive · {"status": "degraded", "reason": …} ── program    (lines on stdout)

Its stdin ends when the node does, however that came about: a program that reads it to the end cannot outlive its node.
"""

import asyncio
import logging
import os
import signal
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Literal

import msgspec

from ringrift.kernel.errors import ChildDied, told
from ringrift.kernel.health import Health, Status

LINE_BYTES_MAX = 64 * 1024
WORDS_KEPT = 8
WORD_CHARACTERS_MAX = 300
LAST_WORDS_SECONDS_MAX = 1.0
KILL_SECONDS_MAX = 5.0
"""How long a program that was killed may take to be gone."""
log = logging.getLogger(__name__)


class Word(msgspec.Struct):
    """One line of JSON from a program; each is a sign of life."""

    status: Literal["healthy", "degraded", "unhealthy"] = "healthy"
    reason: str = ""


def heard(name: str, line: bytes) -> Health | None:
    """What *line* says of the daemon *name*; None for whatever else a program prints, which is no progress."""
    if line.strip() in (b"ready", b"alive"):
        return Health(part=name, status=Status.HEALTHY)
    try:
        word = msgspec.json.decode(line, type=Word)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    reason = told(word.reason, WORD_CHARACTERS_MAX)
    return Health(part=name, status=Status[word.status.upper()], reason=reason)


class Child:
    """One life of the program."""

    def __init__(self, name: str, process: asyncio.subprocess.Process) -> None:
        self.name, self.pid, self._process = name, process.pid, process
        self._last_words: deque[str] = deque(maxlen=WORDS_KEPT)
        self._listening = asyncio.get_running_loop().create_task(self._listen(), name=f"stderr:{name}")

    @classmethod
    async def start(cls, name: str, argv: Sequence[str], greeting: bytes) -> "Child":
        """Start the program and greet it.  Raises OSError if it cannot be started."""
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *argv, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True, limit=LINE_BYTES_MAX
        )
        assert process.stdin is not None
        with suppress(ConnectionError):  # one that does not listen is not to be blamed
            process.stdin.write(greeting + b"\n")
        return cls(name, process)

    async def _listen(self) -> None:
        """Keep the end of what it prints to stderr: it explains a death."""
        assert self._process.stderr is not None
        while True:
            with suppress(ValueError):  # a line longer than the limit: not worth more
                line = await self._process.stderr.readline()
                if not line:
                    return
                self._last_words.append(told(line.decode(errors="replace").rstrip(), WORD_CHARACTERS_MAX))

    async def hear(self, say: Callable[[Health], None]) -> None:
        """Say what the program tells, until it ends.  Raises ChildDied with how it ended and its last words."""
        assert self._process.stdout is not None
        while True:
            try:
                line = await self._process.stdout.readline()
            except ValueError:
                continue  # longer than any line of ours
            if not line:
                break
            word = heard(self.name, line)
            if word is None:
                log.debug("%s printed: %r", self.name, line[:WORD_CHARACTERS_MAX])
            else:
                say(word)
        code = await self._process.wait()
        await asyncio.wait((self._listening,), timeout=LAST_WORDS_SECONDS_MAX)
        how = f"signal {-code}" if code < 0 else f"exit {code}"
        raise ChildDied("".join((f"the program ended with {how}", *(f"\n  {line}" for line in self._last_words))))

    async def end(self, seconds_max: float) -> None:
        """Ask it to stop, and kill it with all it has started when *seconds_max* are over."""
        assert self._process.stdin is not None
        try:
            if self._process.returncode is None:
                self._signal(signal.SIGTERM)
                self._process.stdin.close()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._process.wait(), seconds_max)
        finally:
            self._signal(signal.SIGKILL)  # the group: what it started must not stay behind
            self._process.stdin.close()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), KILL_SECONDS_MAX)
        await asyncio.wait((self._listening,), timeout=LAST_WORDS_SECONDS_MAX)
        self._listening.cancel()

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)


async def serve(
    name: str, argv: Sequence[str], greeting: bytes, *, say: Callable[[Health], None],
    began: Callable[[int | None], None], stop_seconds_max: float,
) -> None:  # fmt: skip
    """Run the program until it ends or this is cancelled; *began* gets its process id, and None when it is gone."""
    child = await Child.start(name, argv, greeting)
    began(child.pid)
    try:
        await child.hear(say)
    finally:
        await child.end(stop_seconds_max)
        began(None)
