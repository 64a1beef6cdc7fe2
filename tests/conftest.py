"""What all tests share."""

import gc
from pathlib import Path

import pytest

ROOT = Path(__file__).parent
TOGETHER = ("tidy", "documents")
"""Folders whose tests share what is dear to read: one worker has them all."""


@pytest.hookimpl(tryfirst=True)  # before the workers read the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of some folders together, where workers share the tests (``--dist loadgroup``)."""
    for item in items:
        folder = item.path.relative_to(ROOT).parts[0]
        if folder in TOGETHER:
            item.add_marker(pytest.mark.xdist_group(folder))


def pytest_collection_finish() -> None:
    """Keep what was imported out of the garbage collector's way.

    The simulator collects garbage at the end of each of its stories, and would walk over every module each time.
    """
    gc.collect()
    gc.freeze()
