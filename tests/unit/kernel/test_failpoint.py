"""An armed failpoint ends the process as a power cut would, and nothing else does."""

import subprocess
import sys

import pytest

from ringrift.kernel.failpoint import NAMES, arm, failpoint

PROGRAM = """
import atexit
from ringrift.kernel.failpoint import arm, failpoint
atexit.register(print, "cleaned up")
arm("store.before_commit", nth=2)
failpoint("store.after_commit")
failpoint("store.before_commit")
print("passed once", flush=True)
try:
    failpoint("store.before_commit")
finally:
    print("went on", flush=True)
"""


def test_an_armed_failpoint_kills_at_the_nth_pass() -> None:
    """The second pass of a failpoint armed for the second ends the process with 137, without any clean-up."""
    ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=30, check=False)

    assert ended.returncode == 137
    assert ended.stdout == "passed once\n"


def test_an_unarmed_failpoint_does_nothing() -> None:
    """Without a test that arms it, a failpoint does nothing."""
    for name in NAMES:
        failpoint(name)


def test_only_existing_failpoints_can_be_armed() -> None:
    """A name that no code passes is a mistake in the test."""
    with pytest.raises(AssertionError):
        arm("store.nowhere")
