"""The documented merges of databases: all or nothing, one at a time for each target, and checked datasets."""

import hashlib
import zipfile
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from compat.subscribers import home
from ringrift.kernel.errors import InputError, LimitReached
from ringrift_compat.sync.sync_mutex import sync_lock
from ringrift_compat.sync.transaction_isolation import MergeTransaction, merge_transaction

__all__ = ["home"]


def database(path: Path, rows: dict[int, str]) -> Path:
    """A database with one table of *rows*."""
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("CREATE TABLE games (id INTEGER PRIMARY KEY, moves TEXT)")
        connection.executemany("INSERT INTO games VALUES (?, ?)", list(rows.items()))
    return path


def rows_of(path: Path) -> dict[int, str]:
    """The rows of a database."""
    with closing(apsw.Connection(str(path))) as connection:
        return dict(connection.execute("SELECT id, moves FROM games"))


def test_databases_are_merged_when_the_body_ends(tmp_path: Path) -> None:
    """Those that were named and those that the body adds, by primary key; not before its end."""
    target = database(tmp_path / "target.db", {1: "a"})
    one, two = database(tmp_path / "one.db", {1: "a", 2: "b"}), database(tmp_path / "two.db", {3: "c"})

    with merge_transaction(target, one) as transaction:
        transaction.add_source(two, hashlib.sha256(two.read_bytes()).hexdigest().upper())
        assert rows_of(target) == {1: "a"}

    assert rows_of(target) == {1: "a", 2: "b", 3: "c"}
    assert transaction.state == "committed"
    assert transaction.report is not None
    assert set(transaction.report.sources) == {str(one), str(two)}


def test_an_error_in_the_body_merges_nothing(tmp_path: Path) -> None:
    """The target is as it was, and the transaction cannot be used again."""
    target, one = database(tmp_path / "target.db", {1: "a"}), database(tmp_path / "one.db", {2: "b"})

    with pytest.raises(ValueError, match="no"), merge_transaction(target, one) as transaction:
        raise ValueError("no")

    assert rows_of(target) == {1: "a"}
    assert transaction.state == "rolled back"
    with pytest.raises(InputError, match="rolled back"):
        transaction.commit()


def test_one_bad_source_merges_none(tmp_path: Path) -> None:
    """A conflict, a wrong checksum, a damaged file or one that is not there: all or nothing."""
    target, good = database(tmp_path / "target.db", {1: "a"}), database(tmp_path / "good.db", {2: "b"})
    conflict, damaged = database(tmp_path / "conflict.db", {1: "other"}), tmp_path / "damaged.db"
    damaged.write_bytes(good.read_bytes()[:3000])
    for bad, checksum in ((conflict, None), (damaged, None), (tmp_path / "none.db", None), (good, "00")):
        transaction = MergeTransaction(target).add_source(good).add_source(bad, checksum)
        with pytest.raises(InputError):
            transaction.commit()
        assert transaction.state == "failed"

    assert rows_of(target) == {1: "a"}


def test_rows_of_the_target_may_stay(tmp_path: Path) -> None:
    """Where the caller says so, a row that differs is no error."""
    target, other = database(tmp_path / "target.db", {1: "a"}), database(tmp_path / "other.db", {1: "x", 2: "b"})

    with merge_transaction(target, other, keep_target=True):
        pass

    assert rows_of(target) == {1: "a", 2: "b"}


def test_a_rollback_leaves_everything_as_it_was(tmp_path: Path) -> None:
    """Inside the body as well: then its end commits nothing."""
    target, other = tmp_path / "target.db", database(tmp_path / "other.db", {2: "b"})

    with merge_transaction(target, other) as transaction:
        transaction.rollback()

    assert not target.exists()
    with pytest.raises(InputError):
        transaction.add_source(other)


def test_one_merge_at_a_time_changes_a_target(tmp_path: Path) -> None:
    """While another program merges into it, this one waits, and gives up in its time."""
    target, other = database(tmp_path / "target.db", {1: "a"}), database(tmp_path / "other.db", {2: "b"})
    with sync_lock(str(target), "merge"), pytest.raises(LimitReached):
        MergeTransaction(target, timeout=0.1).add_source(other).commit()

    assert rows_of(target) == {1: "a"}
    MergeTransaction(target, timeout=0.0).add_source(other).commit()
    assert rows_of(target) == {1: "a", 2: "b"}


def test_a_dataset_is_validated(tmp_path: Path) -> None:
    """The documented path leads to the check of ``.npz`` files."""
    from app.coordination.npz_validation import validate_npz

    path = tmp_path / "data.npz"
    with zipfile.ZipFile(path, "w") as archive:
        header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }".ljust(117) + b"\n"
        archive.writestr("x.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(8))

    assert (validate_npz(path).rows, validate_npz(path).errors) == (2, ())
    path.write_bytes(path.read_bytes()[:-30])
    assert validate_npz(path).errors
