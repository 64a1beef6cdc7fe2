"""A foreign program that holds the write lock of a store: ``python -m chaos.lock FILE`` until its input ends."""

import sys

import apsw

_BUSY_MILLISECONDS = 20_000


def main(path: str) -> None:
    """Take the lock, print a line, wait, and roll back."""
    db = apsw.Connection(path)
    db.set_busy_timeout(_BUSY_MILLISECONDS)
    db.execute("BEGIN IMMEDIATE")
    sys.stdout.write("locked\n")
    sys.stdout.flush()
    sys.stdin.read()
    db.execute("ROLLBACK")
    db.close()


if __name__ == "__main__":
    main(sys.argv[1])
