"""What all tests share."""

import gc

import pytest

# They read the whole source, once for each worker that has some of them.
SOURCE_READERS = ("tidy", "documents")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With ``--dist loadgroup`` the tests of a file share a worker, and those that read the whole source share one."""
    for item in items:
        group = "source" if item.path.parent.name in SOURCE_READERS else str(item.path)
        item.add_marker(pytest.mark.xdist_group(group))


def pytest_collection_finish() -> None:
    """Keep what was imported out of the garbage collector's way.

    The simulator collects garbage at the end of each of its scenarios, and would walk over every module each time.
    """
    gc.collect()
    gc.freeze()
