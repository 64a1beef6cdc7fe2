"""The checkers find what they are for."""

from ringrift.sim import checks
from ringrift.store.ports import Delivery


def letter(reader: str, **changes: object) -> Delivery:
    """A delivery that went wrong."""
    plain = {"position": 7, "state": "dead", "attempts": 3, "pause": 0.0, "error": "boom", "first": 1.0, "last": 2.0}
    return Delivery(reader=reader, **{**plain, **changes})


def test_a_reaction_of_ours_that_failed_is_found() -> None:
    """Also one that was recovered later: only probes are made to fail."""
    found = checks.only_probes_fail([letter("probe"), letter("pipeline", state="done", error="")])

    assert len(found) == 1
    assert "pipeline" in found[0]


def test_a_stale_or_second_completion_is_found() -> None:
    """A job finished twice, or under a fence that is not the newest, breaks a promise; one good end does not."""
    claimed = [("a", 1), ("a", 2), ("b", 1)]

    assert checks.newest_holder_finishes_once(claimed, [("a", 2), ("b", 1)]) == []
    assert len(checks.newest_holder_finishes_once(claimed, [("a", 1)])) == 1
    assert len(checks.newest_holder_finishes_once(claimed, [("a", 2), ("a", 2)])) == 1


def test_work_that_vanished_is_found() -> None:
    """A job too few, or a tally that differs from counting, breaks conservation."""
    tally = {("play", "ready"): 1, ("train", "done"): 1}

    assert checks.work_is_conserved(2, {"ready": 1, "done": 1}, tally) == []
    assert checks.work_is_conserved(3, {"ready": 1, "done": 1}, tally)
    assert checks.work_is_conserved(2, {"ready": 2}, tally)


def test_going_back_is_found() -> None:
    """A reader, a fence or a term that goes back breaks its promise."""
    assert checks.readers_only_advance([("r", 2), ("r", 1)])
    assert checks.fences_grow([("job", 2), ("job", 2)])
    assert checks.terms_never_go_back([("role", 2), ("role", 1)])
    assert not checks.terms_never_go_back([("role", 1), ("other", 1), ("role", 2)])


def test_a_dead_letter_without_its_story_is_found() -> None:
    """A dead letter needs its error and all of its tries."""
    assert checks.letters_are_told([letter("probe")], 3) == []
    assert checks.letters_are_told([letter("probe", error="")], 3)
    assert checks.letters_are_told([letter("probe", attempts=1)], 3)
