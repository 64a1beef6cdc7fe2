"""Stage: where a test meets other processes, each of them playing a part of ``actor.py``."""

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
        """Its number."""
        return self.process.pid

    def hear(self) -> str:
        """The next line it says; "" once it is gone."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def go(self) -> None:
        """Let it go on."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def rest(self) -> list[str]:
        """All that it has still to say, until it is gone."""
        said = list(iter(self.hear, ""))
        self.process.wait()
        return said

    def kill(self) -> None:
        """End it as the kernel would, and wait until it is gone."""
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
        """End everybody."""
        for actor in self._actors:
            with actor.process:
                actor.process.kill()
