"""Exit codes of every program of RingRift; docs/reference/cli.md prints the notes beside them."""

from enum import IntEnum


class ExitCode(IntEnum):
    """How a command ended."""

    DONE = 0  #: done; also the normal end of a command that follows something, and a pipe whose reader has ended
    FAILED = 1  #: failed, or the answer is no: a check is bad, a job was given up, the store cannot be used
    WRONG_INPUT = 2  #: wrong input: an argument, a setting, a variable or a file was refused; nothing was changed
    NOT_PROVEN = 3  #: `run` ended in good order, but a claim of its proof does not hold
    INTERRUPTED = 130  #: stopped by Ctrl-C (SIGINT)
    TERMINATED = 143  #: stopped by SIGTERM
