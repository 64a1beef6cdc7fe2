"""Tasks of programs and claims of the loop share slots and limits, in both directions."""

import pytest

from contract import office
from contract.engines import Engine
from contract.office import play, train
from ringrift.jobs import Export
from ringrift.kernel.errors import LimitReached
from ringrift.store.ports import Renewal, Store
from ringrift.work.desk import Done
from ringrift.work.tasks import HostTick, Limit, Task
from ringrift_compat.tasks.task_admission import Admission
from ringrift_compat.tasks.task_limits import TaskLimits


class Office(office.Office):
    """An office with the admission of a program."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.tasks = Admission(store, self.clock, "host", self.envelopes)

    def task(self, id: str, type: str = "training", variant: str = "v", node: str = "n") -> Task:
        """A task of a program."""
        return Task(id=id, type=type, node=node, variant=variant, beat_at=HostTick(host="host", tick=0.0))


def test_a_claimed_training_keeps_tasks_from_training_its_variant(engine: Engine) -> None:
    """While the job is claimed, no task trains this variant; the end of the job frees the slot."""

    async def story(store: Store) -> None:
        office = Office(store)
        await office.enqueue(train())
        [lease] = await office.desk().claim({"train"}, 9)
        with pytest.raises(LimitReached, match="training of v: 1 of 1"):
            await office.tasks.admit(office.task("a", node="m"))
        await office.desk().finish([Done(lease=Renewal(job=lease.job, fence=lease.fence))])
        await office.tasks.admit(office.task("a", node="m"))

    engine.run(story)


def test_a_training_task_keeps_the_loop_from_training_its_variant(engine: Engine) -> None:
    """A held slot refuses the job until the task has ended, and other variants are trained meanwhile."""

    async def story(store: Store) -> None:
        office = Office(store)
        await office.tasks.admit(office.task("a", node="elsewhere"))
        await office.enqueue(train(), train("w"))
        assert await office.claim() == ["train:w:0"]
        assert await office.verdicts() == {"claim.train": "training slot of v"}
        await office.tasks.finish("a", "completed")
        assert await office.claim() == ["train:v:0"]

    engine.run(story)


def test_stored_limits_bind_claims_and_tasks(engine: Engine) -> None:
    """Two places on a node and three in the cluster are filled by jobs and tasks together, in any order."""

    async def story(store: Store) -> None:
        office = Office(store)
        table = TaskLimits().table
        row = Limit(node_max=2, cluster_max=3)
        limits = TaskLimits(table=table | dict.fromkeys(("selfplay", "gpu_selfplay", "hybrid_selfplay"), row))
        await office.enqueue(*(play(seed=seed) for seed in range(6)))
        await office.tasks.set_limits(limits)
        await office.tasks.admit(office.task("a", "gpu_selfplay", variant=""))
        assert await office.claim() == ["play:v:0"]
        assert await office.claim() == []
        assert await office.verdicts() == {"claim.play": "jobs and tasks of type selfplay on node n"}
        assert await office.claim("m") == ["play:v:1"]
        assert await office.claim("m") == await office.claim("o") == []
        with pytest.raises(LimitReached, match="in the cluster: 3 of 3"):
            await office.tasks.admit(office.task("b", "selfplay", variant="", node="o"))
        await office.tasks.finish("a", "completed")
        assert await office.claim("o") == ["play:v:2"]

    engine.run(story)


def test_jobs_of_a_node_count_against_its_tasks(engine: Engine) -> None:
    """Without stored limits jobs have the node's slots, and the documents' defaults count them for tasks."""

    async def story(store: Store) -> None:
        office = Office(store)
        await office.enqueue(*(Export(variant="v", batches=("b",), seed=seed) for seed in range(4)))
        assert len(await office.claim()) == 4
        with pytest.raises(LimitReached, match="type export on node n: 4 of 2"):
            await office.tasks.admit(office.task("a", "export", variant=""))
        await office.tasks.admit(office.task("a", "export", variant="", node="m"))

    engine.run(story)


def test_a_node_that_starts_again_leaves_tasks_alone(engine: Engine) -> None:
    """Revoking the leases of a node ends its jobs; a program's task on it goes on."""

    async def story(store: Store) -> None:
        office = Office(store)
        await office.enqueue(play())
        await office.claim()
        await office.tasks.admit(office.task("a"))
        assert len(await office.desk().revoke_own("it starts", started=True)) == 1
        assert await office.tasks.beat(["a"]) == ["a"]

    engine.run(story)
