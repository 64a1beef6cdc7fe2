"""The checkers find what they are for."""

from ringrift.sim import checks
from ringrift.store.ports import Delivery


def delivery(reader: str, **changes: object) -> Delivery:
    """A delivery that went wrong."""
    plain = {"position": 7, "state": "dead", "attempts": 3, "pause": 0.0, "error": "boom", "first": 1.0, "last": 2.0}
    return Delivery(reader=reader, **{**plain, **changes})


def test_a_failed_reaction_of_ours_is_detected() -> None:
    """This includes one that was recovered later: only probes are made to fail."""
    violations = checks.only_probes_fail([delivery("probe"), delivery("pipeline", state="done", error="")])

    assert len(violations) == 1
    assert "pipeline" in violations[0]


def test_a_stale_or_second_completion_is_detected() -> None:
    """A job finished twice, or under a fence that is not the newest, breaks a promise; one good end does not."""
    claimed = [("a", 1), ("a", 2), ("b", 1)]

    assert checks.newest_holder_finishes_once(claimed, [("a", 2), ("b", 1)]) == []
    assert len(checks.newest_holder_finishes_once(claimed, [("a", 1)])) == 1
    assert len(checks.newest_holder_finishes_once(claimed, [("a", 2), ("a", 2)])) == 1


def test_vanished_work_is_detected() -> None:
    """A job too few, or a tally that differs from counting, breaks conservation."""
    tally = {("play", "ready"): 1, ("train", "done"): 1}

    assert checks.work_is_conserved(2, {"ready": 1, "done": 1}, tally) == []
    assert checks.work_is_conserved(3, {"ready": 1, "done": 1}, tally)
    assert checks.work_is_conserved(2, {"ready": 2}, tally)


def test_going_back_is_detected() -> None:
    """A reader, a fence or a term that goes back breaks its promise."""
    assert checks.readers_only_advance([("r", 2), ("r", 1)])
    assert checks.fences_grow([("job", 2), ("job", 2)])
    assert checks.terms_never_go_back([("role", 2), ("role", 1)])
    assert not checks.terms_never_go_back([("role", 1), ("other", 1), ("role", 2)])


def test_an_incomplete_dead_letter_is_detected() -> None:
    """A dead letter needs its error and all of its attempts."""
    assert checks.dead_letters_are_complete([delivery("probe")], 3) == []
    assert checks.dead_letters_are_complete([delivery("probe", error="")], 3)
    assert checks.dead_letters_are_complete([delivery("probe", attempts=1)], 3)


def test_what_a_worker_was_promised_and_is_not_there_is_detected() -> None:
    """A result that was acknowledged, or one of its files, is missing; a batch may be known by its file alone."""
    finished, files = {("a", 1)}, {"f"}

    assert checks.acknowledged_are_there([("w", ("a", 1), ["f"])], finished, (), files) == []
    assert checks.acknowledged_are_there([("w", ("a", 2), ["f"])], finished, (), files)
    assert checks.acknowledged_are_there([("w", ("a", 1), ["g"])], finished, (), files)
    assert checks.acknowledged_are_there([("w", ("island:w:1", 0), ["f"])], finished, ["f"], files) == []
    assert checks.acknowledged_are_there([("w", ("island:w:1", 0), ["f"])], finished, (), files)


def test_a_lease_of_two_and_a_batch_that_counts_twice_are_detected() -> None:
    """One holder for each lease, one announcement for each batch."""
    assert checks.leases_have_one_holder({("a", 1): {"w1"}, ("a", 2): {"w2"}}) == []
    assert checks.leases_have_one_holder({("a", 1): {"w1", "w2"}})
    assert checks.batches_are_announced_once([("x", 0), ("y", 0)]) == []
    assert checks.batches_are_announced_once([("x", 0), ("x", 0)])
