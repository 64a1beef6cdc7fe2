"""The duties of the documented daemons: what is reported as done is shown by a test, and nothing else ever runs."""

import ast
import asyncio
from collections.abc import Awaitable, Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest

import mutations
from compat.subscribers import QUICK, async_test, home
from compat.user_daemons import FIRST, LONG, for_ever, quick
from documents import seeds
from ringrift.blobs.folder import Folder
from ringrift.cluster.roster import NODES, NodeRecord
from ringrift.events import catalog, model
from ringrift.events.data import Corrupted
from ringrift.events.pipeline import Opened, Overdue
from ringrift.pipeline.line import LINES, Line, Stage
from ringrift.pipeline.ratings import RATINGS
from ringrift.store.ports import Reads, Tx
from ringrift.supervision.supervisor import Supervisor
from ringrift.sync import ledger
from ringrift_compat.daemons.duties import ALWAYS, DUTIES
from ringrift_compat.daemons.types import DaemonState, DaemonType
from ringrift_compat.embedded_host import get_host
from ringrift_compat.embedded_node import embedded
from unit.pipeline.story import VARIANT, at, blob
from wait import wait_until

__all__ = ["home"]
T = TypeVar("T")
ROOT = Path(__file__).parents[1]
FACTS = seeds.FOLDER.parent / "facts" / "enumerations.md"
DONE_MIN = 41
PARTS = "EVENT_ROUTER DAEMON_WATCHDOG CROSS_PROCESS_POLLER COORDINATOR_HEALTH_MONITOR CONFIG_VALIDATOR"
"""The parts of every node, which stay when a manager is shut down."""
HEARTBEAT = "beat"
"""The one daemon of the node that a part is made of."""
RETIRED = """
    CASCADE_TRAINING NNUE_TRAINING ONLINE_MERGE PER_ORCHESTRATOR REANALYSIS SOCKET_LEAK_RECOVERY VOTER_HEALTH_MONITOR
    TAILSCALE_HEALTH
"""

_MACHINE, _TICKS, _WATCH = "unit/pipeline/test_machine.py", "unit/daemons/test_ticks.py", "unit/daemons/test_watch.py"
_FEEDBACK = "unit/pipeline/test_feedback.py"
_STRATEGIES, _EVACUATE = "unit/daemons/test_strategies.py", "unit/daemons/test_evacuate.py"
_ADOPT, _PACKS = "unit/daemons/test_adopt.py", "unit/daemons/test_consolidate.py"
_BACKUP, _BACKUPS = "contract/test_backup.py", "contract/test_backup_daemons.py"
_PLAN = "unit/sync/test_plan.py"
_GAMES, _DISK = "compat/test_game_import.py", "unit/daemons/test_disk.py"
_INBOX, _HEAL = "contract/test_import_models.py", "unit/daemons/test_heal.py"
SHOWN_BY = {
    # parts of every node
    "EVENT_ROUTER": "compat/test_events.py::test_one_publish_is_one_delivery",
    "DAEMON_WATCHDOG": "unit/supervision/test_supervisor.py::test_a_failing_daemon_is_started_again",
    "COORDINATOR_HEALTH_MONITOR": "unit/daemons/test_beat.py::test_each_change_of_health_is_published_once",
    "CROSS_PROCESS_POLLER": "compat/test_embedded_node.py::test_two_programs_on_one_home_exchange_events",
    "CONFIG_VALIDATOR": "unit/kernel/test_settings.py::test_a_value_out_of_its_range_names_key_value_and_range",
    "CONFIG_SYNC": "unit/work/test_line_work.py::test_a_job_gets_the_workload_and_params_of_its_line",
    "P2P_BACKEND": "compat/test_p2p_backend.py::test_a_program_serves_when_it_is_asked_to_and_names_itself",
    "P2P_RECOVERY": (
        f"{_HEAL}::test_a_daemon_that_keeps_failing_gets_its_steps_in_order_and_then_a_person_is_asked_once"
    ),
    "CONNECTIVITY_RECOVERY": f"{_WATCH}::test_a_node_is_lost_once_and_recovers_once",
    "DLQ_RETRY": "unit/daemons/test_reactions.py::test_a_parked_delivery_is_retried_when_its_pause_is_over",
    # copies of files
    "AUTO_SYNC": f"{_TICKS}::test_missing_copies_are_enqueued",
    "SYNC_COORDINATOR": "unit/pipeline/test_file_jobs.py::test_a_batch_gets_as_many_copies_as_the_policy_requires",
    "MODEL_SYNC": f"{_TICKS}::test_missing_copies_are_enqueued",
    "NPZ_DISTRIBUTION": f"{_TICKS}::test_samples_are_copied_too",
    "REPLICATION_MONITOR": f"{_TICKS}::test_a_copy_on_a_silent_node_does_not_count",
    "REPLICATION_REPAIR": f"{_TICKS}::test_a_copy_on_a_silent_node_does_not_count",
    "CLUSTER_DATA_SYNC": f"{_STRATEGIES}::test_strategies_differ_in_which_bytes_move_when",
    "GOSSIP_SYNC": f"{_STRATEGIES}::test_strategies_differ_in_which_bytes_move_when",
    "UNIFIED_DATA_PLANE": "unit/sync/test_plan_rules.py::test_every_want_is_served_or_says_why_it_waits",
    "UNIFIED_DATA_SYNC_ORCHESTRATOR": f"{_PLAN}::test_urgent_copies_go_first_then_by_class_deadline_and_rarity",
    "TRAINING_NODE_WATCHER": f"{_PLAN}::test_urgent_copies_go_first_then_by_class_deadline_and_rarity",
    "EPHEMERAL_SYNC": f"{_EVACUATE}::test_an_only_copy_on_a_machine_that_may_vanish_is_brought_to_a_durable_one",
    "SYNC_PUSH": f"{_EVACUATE}::test_only_machines_that_may_vanish_protect_what_they_make",
    "UNIFIED_DATA_CATALOG": "unit/sync/test_manifest.py::test_the_manifest_follows_every_change_of_the_ledger",
    "NODE_DATA_AGENT": f"{_ADOPT}::test_an_orphan_is_adopted_at_the_second_look",
    "ORPHAN_DETECTION": f"{_ADOPT}::test_an_orphan_is_adopted_at_the_second_look",
    "DATA_SERVER": "unit/sync/test_peers.py::test_a_worker_fetches_from_a_peer_first",
    "CACHE_COORDINATION": "contract/test_file_share.py::test_a_candidate_is_with_the_workers_before_it_is_promoted",
    # backups, drives, packs, room, games from elsewhere
    "EXTERNAL_DRIVE_SYNC": f"{_BACKUPS}::test_damage_on_the_mirror_is_noticed_and_mended",
    "OWC_SYNC_MANAGER": f"{_BACKUPS}::test_a_drive_that_is_away_keeps_its_files_in_the_ledger",
    "OWC_PUSH": f"{_BACKUPS}::test_damage_on_the_mirror_is_noticed_and_mended",
    "OWC_MODEL_IMPORT": f"{_INBOX}::test_a_model_file_is_imported_verified_and_matched_once",
    "OWC_IMPORT": f"{_GAMES}::test_the_games_of_a_database_count_once_and_before_the_event",
    "PRODUCTION_GAME_IMPORT": f"{_GAMES}::test_the_games_of_a_database_count_once_and_before_the_event",
    "DUAL_BACKUP": f"{_BACKUPS}::test_a_backup_is_made_when_it_is_due",
    "UNIFIED_BACKUP": f"{_BACKUPS}::test_a_backup_is_made_when_it_is_due",
    "S3_BACKUP": f"{_BACKUP}::test_what_was_backed_up_comes_back_in_an_empty_home",
    "S3_SYNC": f"{_BACKUP}::test_only_what_is_new_is_sent",
    "S3_NODE_SYNC": f"{_BACKUP}::test_a_file_that_lies_in_no_folder_is_fetched_first",
    "S3_PUSH": f"{_BACKUP}::test_only_what_is_new_is_sent",
    "S3_CONSOLIDATION": f"{_BACKUP}::test_old_backups_go_with_what_only_they_need",
    "S3_IMPORT": "contract/test_places.py::test_a_transfer_from_a_bucket_goes_on_where_it_was",
    "CLUSTER_CONSOLIDATION": f"{_PACKS}::test_small_games_that_rest_are_packed",
    "DATA_CONSOLIDATION": f"{_PACKS}::test_small_games_that_rest_are_packed",
    "COMPREHENSIVE_CONSOLIDATION": f"{_PACKS}::test_small_games_that_rest_are_packed",
    "DISK_SPACE_MANAGER": f"{_DISK}::test_a_fuller_disk_keeps_unneeded_files_for_a_shorter_time",
    "COORDINATOR_DISK_MANAGER": f"{_DISK}::test_games_go_that_enough_others_provably_hold",
    "NPZ_COMBINATION": f"{_MACHINE}::test_games_are_copied_counted_and_exported_when_there_are_enough",
    "MODEL_DISTRIBUTION": "unit/pipeline/test_file_jobs.py::test_a_model_is_distributed_to_every_playing_node",
    "TRAINING_DATA_SYNC": "unit/sync/test_transfer.py::test_a_blob_is_fetched_once",
    "ELO_SYNC": "unit/pipeline/test_ratings.py::test_a_rating_job_is_enqueued_once_and_its_result_is_stored",
    # the loop
    "DATA_PIPELINE": f"{_MACHINE}::test_the_first_model_is_copied_checked_and_promoted_without_a_match",
    "AUTO_EXPORT": f"{_MACHINE}::test_games_are_copied_counted_and_exported_when_there_are_enough",
    "TRAINING_TRIGGER": f"{_MACHINE}::test_samples_are_trained_on_from_the_champion",
    "CONTINUOUS_TRAINING_LOOP": "compat/test_pipeline.py::test_with_auto_trigger_the_loop_runs_by_itself",
    "SELFPLAY_COORDINATOR": "unit/daemons/test_reactions.py::test_self_play_is_topped_up_and_not_more",
    "QUEUE_POPULATOR": "unit/daemons/test_reactions.py::test_self_play_is_topped_up_and_not_more",
    "FEEDBACK_LOOP": "unit/pipeline/test_ratings.py::test_the_loop_applies_only_the_effects_in_force",
    "GAUNTLET_FEEDBACK": f"{_FEEDBACK}::test_the_event_and_the_effect_begin_together",
    "METRICS_ANALYSIS": f"{_FEEDBACK}::test_a_plateau_is_published_once_and_ends_with_a_promotion",
    "PROGRESS_WATCHDOG": f"{_FEEDBACK}::test_a_line_that_surely_stands_still_plays_more_for_an_export",
    "ELO_PROGRESS": "unit/daemons/test_record_ratings.py::test_every_champion_has_its_period_and_its_strength",
    "TRAINING_WATCHDOG": "unit/work/test_runner.py::test_a_silent_job_is_killed_before_its_lease_is_over",
    "EXPORT_WATCHDOG": "unit/work/test_runner.py::test_a_job_past_its_deadline_is_killed",
    "PIPELINE_COMPLETENESS_MONITOR": f"{_WATCH}::test_an_overdue_stage_is_published_once",
    # strength
    "EVALUATION": f"{_MACHINE}::test_a_candidate_plays_numbered_blocks_of_one_seed",
    "AUTO_PROMOTION": f"{_MACHINE}::test_a_stronger_candidate_is_promoted_on_evidence",
    "UNIFIED_PROMOTION": f"{_MACHINE}::test_a_weaker_candidate_is_rejected_on_evidence",
    "MODEL_PERFORMANCE_WATCHDOG": "unit/daemons/test_win_rates.py::test_a_fall_of_the_win_rate_leads_to_a_review",
    "UNEVALUATED_MODEL_SCANNER": f"{_INBOX}::test_a_model_file_is_imported_verified_and_matched_once",
    "BACKLOG_EVALUATION": f"{_INBOX}::test_a_model_file_is_imported_verified_and_matched_once",
    "TOURNAMENT_DAEMON": "unit/pipeline/test_ladder.py::test_the_daemon_starts_a_round_when_it_is_due",
    # nodes and queues
    "NODE_HEALTH_MONITOR": f"{_WATCH}::test_a_node_is_lost_once_and_recovers_once",
    "CLUSTER_MONITOR": "unit/daemons/test_beat.py::test_a_beat_records_the_activity_of_the_node",
    "HEALTH_CHECK": f"{_WATCH}::test_a_node_is_lost_once_and_recovers_once",
    "NODE_AVAILABILITY": f"{_WATCH}::test_a_node_is_lost_once_and_recovers_once",
    "AVAILABILITY_NODE_MONITOR": f"{_WATCH}::test_a_deregistered_node_is_not_lost",
    "RECOVERY_ORCHESTRATOR": (
        f"{_HEAL}::test_a_daemon_that_keeps_failing_gets_its_steps_in_order_and_then_a_person_is_asked_once"
    ),
    "FAST_FAILURE_DETECTOR": (
        f"{_HEAL}::test_a_node_whose_jobs_all_fail_gets_no_new_jobs_for_a_rest_and_then_one_that_decides"
    ),
    "SYSTEM_HEALTH_MONITOR": (
        "unit/daemons/test_heal_brakes.py::test_the_loop_pauses_while_health_is_critical_and_resumes_by_itself"
    ),
    "WORK_QUEUE_MONITOR": "unit/daemons/test_measure_queues.py::test_pressure_is_published_only_when_it_changes",
    "QUEUE_MONITOR": "unit/daemons/test_measure_queues.py::test_every_queue_is_stored_with_its_depth_and_its_drain",
    "JOB_SCHEDULER": "contract/test_store_jobs.py::test_claims_are_fair_within_priority",
    "MAINTENANCE": f"{_TICKS}::test_a_sweep_drops_old_events_and_corrupt_files",
    "INTEGRITY_CHECK": f"{_TICKS}::test_a_sweep_drops_old_events_and_corrupt_files",
}
"""Each daemon of the earlier system whose duty is done here, and the test that fails if it is not."""


@cache
def documented() -> frozenset[str]:
    """The daemons of the earlier system: those of the enumeration, or of our table where that is not there."""
    if not FACTS.exists():
        return frozenset(name for name, duty in DUTIES.items() if name.lower() != duty.target)
    rows = FACTS.read_text().split("### 1.2")[1].split("```")[1].strip().splitlines()
    return frozenset(row.split("|")[0].strip() for row in rows)


@cache
def names_of_tests(file: str) -> frozenset[str]:
    """The names of the tests in *file*."""
    tree = ast.parse((ROOT / file).read_text())
    functions = [part for part in ast.walk(tree) if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)]
    return frozenset(function.name for function in functions if function.name.startswith("test_"))


def test_every_duty_that_is_done_is_shown_by_a_test_that_exists() -> None:
    """The table has every daemon that is reported as done and no other, and there are enough of them."""
    done = {name for name in documented() if DUTIES[name].is_done}

    assert set(SHOWN_BY) == done
    assert len(done) >= DONE_MIN
    missing = [test for test in SHOWN_BY.values() if test.split("::")[1] not in names_of_tests(test.split("::")[0])]
    assert missing == []


def test_every_duty_is_shown_by_a_test_that_can_fail() -> None:
    """For each of these tests there is a mutation of what it shows (tests/mutants), which it must notice."""
    noticing = {mutation.function for mutation in mutations.load()}

    assert {test for test in SHOWN_BY.values() if f"tests/{test}" not in noticing} == set()


def test_these_daemons_are_retired_and_no_others() -> None:
    """Each has a reason; every other daemon is done or names the work that brings it."""
    kinds = {name: DUTIES[name].kind for name in documented()}

    assert {name for name, kind in kinds.items() if kind == "retired"} == set(RETIRED.split())
    assert all(DUTIES[name].target.startswith("retired: ") for name in RETIRED.split())
    later = [name for name, kind in kinds.items() if kind == "later"]
    assert all(len(DUTIES[name].target) > len("not yet: ") for name in later)
    assert len(documented()) == len(SHOWN_BY) + len(later) + len(RETIRED.split())


def test_a_daemon_whose_duty_is_not_done_never_runs() -> None:
    """Its start is false with the reason, no state of it is running, and no node is opened for it."""
    manager = quick()
    names = sorted(name for name in documented() if not DUTIES[name].is_done)

    async def start_all() -> list[bool]:
        return [await manager.start(DaemonType[name]) for name in names]

    assert not any(asyncio.run(start_all()))
    infos = {name: manager.get_daemon_status(name) for name in names}
    assert {info.state for info in infos.values()} == {DaemonState.IMPORT_FAILED}
    assert {name: info.reason for name, info in infos.items()} == {name: DUTIES[name].target for name in names}
    assert not any(info.is_running or info.healthy for info in infos.values())
    assert get_host(embedded.node()) is None


def supervisor() -> Supervisor:
    """That of this program's node."""
    whole = get_host(embedded.node())
    assert whole is not None
    return whole.supervisor


def test_after_a_shutdown_only_the_five_parts_stay_and_the_next_start_works() -> None:
    """Everything that the manager started has ended, the node holds no role and takes no command; then it does again.

    What another manager has started goes on.
    """
    manager, other = quick(), quick()

    async def story() -> None:
        manager.register_factory(FIRST, for_ever)
        assert await manager.start(FIRST)
        assert await manager.start(DaemonType.DATA_PIPELINE)
        assert await other.start(DaemonType.AUTO_SYNC)
        await manager.shutdown()
        assert not manager.is_running(FIRST)
        assert {report.name for report in supervisor().statuses() if report.should_run} == {"replicate", *ALWAYS}
        await other.shutdown()
        assert {report.name for report in supervisor().statuses() if report.should_run} == {HEARTBEAT}
        assert {kind.name for kind in DaemonType if manager.is_running(kind)} == set(PARTS.split())
        whole = get_host(embedded.node())
        assert whole is not None
        assert not whole.roles.holds("pipeline")
        assert await manager.start(DaemonType.DATA_PIPELINE)
        assert {report.name for report in supervisor().statuses() if report.should_run} == {"pipeline", *ALWAYS}
        assert whole.roles.holds("pipeline")

    asyncio.run(story())


# -- a duty begins when its daemon is started under its documented name -----------------------------------------------

FAST = """
[cluster]
watch_seconds = 0.05
[replicas]
every_seconds = 0.05
[policy]
auto = true
variants = ["hex8_2p"]
"""


def read(query: Callable[[Reads], Awaitable[T]]) -> T:
    """The result of *query* on the store of this program."""

    async def run(view: Reads) -> T:
        return await query(view)

    return embedded.query(run)


def write(change: Callable[[Tx], Awaitable[object]]) -> None:
    """Make *change* to the store of this program."""

    async def run() -> None:
        async with embedded.node().store.begin() as tx:
            await change(tx)

    embedded.call(run())


def publish(event: Any) -> None:
    """Publish *event* as a program does."""
    embedded.call(embedded.node().router.publish(event))


def events(kind: type[T]) -> list[T]:
    """All events of *kind* in the log."""

    async def query(view: Reads) -> list[Any]:
        rows = await view.read(0, 500, [kind.name()])  # type: ignore[attr-defined]  # every event has one
        return [catalog.decode(row.name, row.body) for row in rows]

    return read(query)


def jobs(kind: str) -> list[str]:
    """The keys of the jobs of *kind* that wait."""

    async def query(view: Reads) -> list[str]:
        return [row.key for row in await view.jobs(("ready",), 100) if row.kind == kind]

    return read(query)


def keep(line: Line) -> None:
    """Store *line*."""
    write(lambda tx: LINES.put(tx, [line]))


def overdue() -> Callable[[], object]:
    """A line that has trained since long ago is reported."""
    keep(msgspec.structs.replace(at(Stage.TRAINING).line, since=1.0))
    return lambda: events(Overdue)


def thin() -> Callable[[], object]:
    """A champion with one copy is copied."""
    line = at(Stage.COLLECTING, rounds=0).line
    keep(line)
    folder = Folder(Path(embedded.node().settings.blobs.folder).absolute() / "other", "other")
    folder.mark()
    node = NodeRecord(id="other", profile="selfplay", address=str(folder.root), beat=1)
    write(lambda tx: NODES.put(tx, [node]))
    write(lambda tx: tx.put([ledger.holding(str(line.champion), "other")]))
    return lambda: jobs("sync")


def hungry() -> Callable[[], object]:
    """A line that can use games gets jobs that play some."""
    keep(at(Stage.COLLECTING, rounds=0).line)
    publish(Opened(variant=VARIANT, workload="fake"))
    return lambda: jobs("play")


def opened() -> Callable[[], object]:
    """A line that is opened gets its first model trained."""
    publish(Opened(variant=VARIANT, workload="fake"))
    return lambda: jobs("train")


def promoted() -> Callable[[], object]:
    """A champion is recorded with its period."""
    publish(model.Promoted(variant=VARIANT, model=blob("m"), generation=1))
    return lambda: read(lambda view: RATINGS.get(view, VARIANT))


def damaged() -> Callable[[], object]:
    """A file whose content is not what its name says is set aside and reported."""
    settings = embedded.node().settings
    folder = Folder(str(Path(settings.blobs.folder) / settings.node.id))
    folder.path(folder.put(b"good")).write_bytes(b"bad")
    return lambda: events(Corrupted)


EFFECTS: dict[Callable[[], Callable[[], object]], str] = {
    overdue: "PIPELINE_COMPLETENESS_MONITOR",
    thin: "AUTO_SYNC MODEL_SYNC REPLICATION_REPAIR",
    hungry: "SELFPLAY_COORDINATOR QUEUE_POPULATOR",
    opened: "DATA_PIPELINE",
    promoted: "ELO_PROGRESS",
    damaged: "MAINTENANCE INTEGRITY_CHECK",
}
"""A situation, which returns how to look for the effect of a duty on it, and the daemons that have this duty."""


@pytest.mark.parametrize(
    ("situation", "name"), [(situation, name) for situation, names in EFFECTS.items() for name in names.split()]
)
@async_test
async def test_a_duty_begins_when_its_daemon_is_started(
    home: Path, situation: Callable[[], Callable[[], object]], name: str
) -> None:
    """Before the start under its documented name there is no effect, and after it there is."""
    (home / "ringrift.toml").write_text(QUICK + FAST)
    effect = situation()
    assert not effect()

    assert await quick().start(DaemonType[name])

    await wait_until(lambda: bool(effect()), LONG)
