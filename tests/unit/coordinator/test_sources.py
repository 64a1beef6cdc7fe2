"""From where a node reads a large file: the pure choice among those who have it, will have it, and the coordinator."""

from contract.engines import ManualClock
from ringrift.coordinator.sources import _COORDINATOR, Sources

BIG, SMALL, BLOB = 1 << 30, 1 << 20, "ab" * 32
FLEET = [f"w{number}" for number in range(30)]


def choose(
    sources: Sources,
    reader: str,
    *failed: str,
    holders: tuple[str, ...] = (),
    servers: list[str] = FLEET,
    size: int = BIG,
) -> str | None:
    """From where *reader* should read."""
    return sources.choose(reader, BLOB, size, holders=holders, servers=servers, failed=failed)


def test_readers_form_a_tree_below_the_coordinator() -> None:
    """The coordinator sends it once, each peer at most twice, and nobody waits as long as peers pass it on."""
    sources = Sources(ManualClock())
    chosen = {reader: choose(sources, reader) for reader in FLEET}

    assert list(chosen.values()).count(_COORDINATOR) == 1
    assert None not in chosen.values()
    assert max(list(chosen.values()).count(peer) for peer in FLEET) <= 2
    depths = {}
    for reader in FLEET:
        depth, source = 0, chosen[reader]
        while source:
            depth, source = depth + 1, chosen[source]
        depths[reader] = depth
    assert max(depths.values()) <= 4


def test_who_has_the_file_sends_it_before_who_is_getting_it() -> None:
    """And a peer that failed, the reader itself and one that does not serve are not chosen."""
    sources = Sources(ManualClock())

    assert choose(sources, "w1", holders=("w1", "w2", "w3"), servers=["w1", "w2"]) == "w2"
    assert choose(sources, "w4", "w2", holders=("w2", "w3"), servers=["w2"]) == _COORDINATOR
    assert choose(sources, "w5", holders=("w2",), size=SMALL) == _COORDINATOR


def test_where_nobody_passes_it_on_all_read_from_the_coordinator() -> None:
    """Waiting would help nobody."""
    sources = Sources(ManualClock())
    assert [choose(sources, reader, servers=[]) for reader in FLEET[:4]] == [_COORDINATOR] * 4


def test_a_reader_waits_while_all_places_are_taken_but_not_for_ever() -> None:
    """One that reads shows it with every piece; one that does not loses its place."""
    clock = ManualClock()
    sources = Sources(clock)
    assert choose(sources, "w0", servers=["w0"]) == _COORDINATOR
    assert [choose(sources, reader, servers=["w0"]) for reader in ("w1", "w2", "w3")] == ["w0", "w0", None]
    assert sources.pause_seconds > 0
    for _ in range(31):
        clock.seconds += 1.0
        sources.touch("w0", BLOB)
    assert choose(sources, "w3", servers=["w0"]) == _COORDINATOR

    sources.end("w1", [BLOB])
    assert choose(sources, "w4", servers=["w0"]) == "w0"
    clock.seconds += 11.0
    assert choose(sources, "w5", servers=["w0"]) == _COORDINATOR  # w0 has shown nothing for long


def test_no_circle_is_made() -> None:
    """A reader whose source failed is not sent to one that gets the file from it."""
    sources = Sources(ManualClock())
    assert choose(sources, "w0", servers=["w0", "w1", "w2"]) == _COORDINATOR
    assert choose(sources, "w1", servers=["w0", "w1", "w2"]) == "w0"
    assert choose(sources, "w2", "w0", servers=["w0", "w1", "w2"]) == "w1"

    assert choose(sources, "w0", servers=["w0", "w1", "w2"]) == _COORDINATOR
    assert choose(sources, "w1", "w0", servers=["w0", "w1", "w2"]) is None
