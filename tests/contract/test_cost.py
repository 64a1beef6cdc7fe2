"""Cost does not grow with age: every statement of the loop does as much in an old store as in a young one.

The loop is the real one, with the stand-in workload.  The old store has done a hundred times as many jobs as the young
one; both are smaller than real ones by the same factor, so that this takes seconds (``bench/history.py`` measures
100,000 jobs).  What is counted are steps of SQLite's virtual machine, which other processes cannot change.
"""

import asyncio
import re
import shutil
from pathlib import Path
from statistics import median

import apsw
import pytest
from bench import history

from contract.steps import Steps, traced
from ringrift.store.sqlite.connect import connect

YOUNG, OLD = 300, 30_000
JOBS = 150
GROWING = ("log", "deliveries", "jobs", "archived_jobs", "records", "record_index", "names", "links", "origins")
LIVE = ("jobs_key", "jobs_claimed", "jobs_paused", "jobs_ready")  # partial indexes: only rows that have not ended
FACTOR, SLACK = 2, 3_000  # sets with a limit, as the players of a line, may still fill; 30,000 rows are 60,000 steps
OFTEN = {
    "policy.rate_seconds": 0.3,
    "work.rescue_seconds": 0.3,
    "work.measure_queues_seconds": 0.3,
    "cluster.watch_seconds": 0.3,
    "replicas.every_seconds": 0.3,
    "bus.redeliver_seconds": 0.3,
    "sweep.every_seconds": 1.0,
    # So small that the young store is swept as well.
    "store.jobs_max": 100,
    "store.log_events_max": 500,
    "store.detail_events_max": 200,
}


def run_loop(home: Path) -> Steps:
    """The steps of every statement of the loop, from its start, after an earlier one has swept what there was."""
    asyncio.run(history.run(home, 0, JOBS, OFTEN))
    with traced() as steps:
        asyncio.run(history.run(home, 0, JOBS, OFTEN))
    return steps


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A young store and an old one."""
    young = tmp_path_factory.mktemp("young") / "home"
    history.grow(young, YOUNG)
    old = shutil.copytree(young, young.parent / "old")
    history.age(old, OLD)
    return young, old


def scans(db: apsw.Connection, sql: str) -> list[str]:
    """The parts of the plan of *sql* that read a growing table from one end to the other."""
    bindings = len(set(re.findall(r"\?(\d+)", sql))) or sql.count("?")
    plan = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {sql}", (None,) * bindings)]
    whole = [step for step in plan if step.startswith("SCAN") and step.split()[1] in GROWING]
    return [step for step in whole if not step.endswith(LIVE)]


@pytest.fixture(scope="module")
def loops(homes: tuple[Path, Path]) -> tuple[Steps, Steps]:
    """The steps of the loop in either store."""
    young, old = (run_loop(home) for home in homes)
    return young, old


def test_the_old_store_is_old(homes: tuple[Path, Path]) -> None:
    """It has a hundred times as many jobs, and its counters agree with its rows."""
    done = []
    for home in homes:
        db = connect(home / "store.db")
        rows = set(db.execute("SELECT kind, variant, state, count(*) FROM every_job GROUP BY 1, 2, 3"))
        counters = db.execute(
            "SELECT kind, variant, state, sum(count) FROM job_counts WHERE count > 0 GROUP BY 1, 2, 3"
        )
        assert rows == set(counters)
        done.append(sum(count for _, _, state, count in rows if state == "done"))
        db.close()
    assert done[1] > 30 * done[0]  # another test may have run the loop on both


def test_no_statement_of_the_loop_reads_a_growing_table_as_a_whole(
    homes: tuple[Path, Path], loops: tuple[Steps, Steps]
) -> None:
    """Each has an index that leads to its rows; only those of live jobs are read from one end to the other."""
    db = connect(homes[1] / "store.db")
    plans = {sql: scans(db, sql) for sql, _ in set().union(*loops)}
    db.close()
    assert len(plans) > 40
    assert {sql: plan for sql, plan in plans.items() if plan} == {}


def test_no_statement_of_the_loop_does_more_where_the_past_is_longer(loops: tuple[Steps, Steps]) -> None:
    """An index can lead to the rows of all times as well: what counts is how far it is followed."""
    young, old = loops
    names = set(young) & set(old)
    assert len(names) > 80
    growing = {name: (median(young[name]), median(old[name])) for name in names if grows(young[name], old[name])}
    assert growing == {}


def grows(young: list[int], old: list[int]) -> bool:
    """Whether a statement does more in the old store: each time, and in the whole loop.

    A busy machine sweeps less often, and then more rows at once; or it looks around more often until the jobs are done.
    """
    pairs = ((median(young), median(old)), (sum(young), sum(old)))
    return all(after > FACTOR * before + SLACK for before, after in pairs)


def test_more_at_each_time_and_in_all_is_growth() -> None:
    """One of them alone depends on how fast the machine is."""
    assert grows([100] * 10, [60_000] * 10)
    assert not grows([5_000] * 3, [15_000])
    assert not grows([100] * 10, [100] * 1_000)
