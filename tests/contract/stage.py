"""Stage: starts and ends the other processes of a test, each of them running an action of ``actor.py``."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ACTOR = Path(__file__).with_name("actor.py")


class Actor:
    """A process that plays one part."""

    def __init__(self, *words: object, under: Sequence[str] = ()) -> None:
        line = [*under, sys.executable, str(ACTOR), *map(str, words)]
        self.process = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    def read_line(self) -> str:
        """The next line of its output; "" once it has ended."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def go(self) -> None:
        """Send it a line, so that it continues."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def rest(self) -> list[str]:
        """The rest of its output, until it has ended."""
        lines = list(iter(self.read_line, ""))
        self.process.wait()
        return lines

    def kill(self) -> None:
        """Kill it with SIGKILL, and wait until it has ended."""
        self.process.kill()
        self.process.wait()


class Stage:
    """Starts actors, and ends those that are left."""

    def __init__(self) -> None:
        self._actors: list[Actor] = []

    def enter(self, *words: object, under: Sequence[str] = ()) -> Actor:
        """Start one more, perhaps *under* another command."""
        self._actors.append(Actor(*words, under=under))
        return self._actors[-1]

    def clear(self) -> None:
        """End all actors."""
        for actor in self._actors:
            with actor.process:
                actor.process.kill()
