"""What all tests share."""

import gc


def pytest_collection_finish() -> None:
    """Keep what was imported out of the garbage collector's way.

    The simulator collects garbage at the end of each of its scenarios, and would walk over every module each time.
    """
    gc.collect()
    gc.freeze()
