"""Gossip finds members that are dead, holds no live one for dead, and heals; all of it in simulated time."""

from random import Random

from ringrift.cluster.swim import Swim
from ringrift.cluster.swim_packets import UPDATES_MAX, MemberState, Packet, Update, UpdateQueue
from unit.cluster.gossip_net import GossipNet

ALIVE, SUSPECT, DEAD, LEFT = MemberState
HERE = ("10.0.0.9", 9)


def row(name: str, state: MemberState = ALIVE, incarnation: int = 0, by: str = "") -> Update:
    """What is said about *name*."""
    return Update(name=name, state=state, incarnation=incarnation, address=HERE, by=by)


def swim(*rows: Update) -> Swim:
    """A member that knows *rows*."""
    member = Swim("me", Random(1), 0.0)
    member.learn(rows, 0.0)
    return member


def test_a_thousand_members_find_the_dead_ones_and_no_other() -> None:
    """With one packet in twenty lost, every member knows of ten deaths within 20 periods, and none is wrong."""
    net = GossipNet(1000, loss=0.05, seed=3)
    net.run(3.0)
    net.down.update(net.names[10:20])

    net.run(20.0)

    for name in net.names[10:20]:
        assert net.opinions(name).count(DEAD) == 990, name
    live = [net.swims[name] for name in net.names if name not in net.down]
    assert {name for member in live for name in member.dead()} == net.down
    assert net.sent < 5 * 23 * 1000, "a member sends a few packets each period, however many there are"


def test_a_member_that_was_cut_off_for_a_moment_is_not_dead() -> None:
    """It hears that it is suspected and refutes it; then everyone holds it for alive."""
    net = GossipNet(20)
    net.run(3.0)
    net.is_cut = lambda a, b: "n3" in (a, b)
    net.run(4.0)
    assert SUSPECT in net.opinions("n3")

    net.is_cut = lambda a, b: False
    net.run(15.0)

    assert set(net.opinions("n3")) == {ALIVE}
    assert net.swims["n3"].incarnation > 0


def test_a_member_that_hears_nobody_doubts_itself_first() -> None:
    """While it is deaf it probes more slowly, and does not hold all others for dead sooner than they hold it."""
    net = GossipNet(20, seed=4)
    net.run(3.0)
    net.is_cut = lambda a, b: b == "n3"
    net.run(12.0)

    deaf = net.swims["n3"]
    assert deaf.self_doubt >= 5
    assert deaf.dead() == frozenset()
    assert net.opinions("n3").count(DEAD) == 19


def test_both_sides_of_a_partition_find_each_other_again() -> None:
    """Each side holds the other for dead; once the network is whole, dead members are probed now and then."""
    net = GossipNet(12, seed=5)
    left = set(net.names[:6])
    net.is_cut = lambda a, b: (a in left) != (b in left)
    net.run(60.0)
    assert net.swims["n0"].dead() == set(net.names[6:])

    net.is_cut = lambda a, b: False
    net.run(60.0)

    assert all(not member.dead() for member in net.swims.values())


def test_a_new_member_gets_to_know_everyone_from_one_seed() -> None:
    """And everyone gets to know it; a process that is started again under its old name is no dead one."""
    net = GossipNet(30, seed=6)
    net.down.add("n7")
    net.run(40.0)
    assert net.opinions("n7").count(DEAD) == 29

    again = Swim("n7", Random(77), net.now)
    net.start("n7", again)
    net.send("n7", again.join([net.addresses["n0"]]))
    net.run(20.0)

    assert len(again.members) == 29
    assert set(net.opinions("n7")) == {ALIVE}


def test_a_member_that_leaves_is_not_dead() -> None:
    """The others forget it."""
    net = GossipNet(10, seed=7)
    net.run(2.0)
    net.send("n4", net.swims["n4"].leave())
    net.down.add("n4")

    net.run(40.0)

    assert all("n4" not in net.swims[name].dead() for name in net.names)
    assert net.opinions("n4") == []


def test_of_two_updates_the_later_incarnation_holds_and_then_the_worse_state() -> None:
    """An old rumour changes nothing."""
    member = swim(row("a", ALIVE, 3))
    for update, state in [
        (row("a", SUSPECT, 2), ALIVE),
        (row("a", SUSPECT, 3), SUSPECT),
        (row("a", ALIVE, 3), SUSPECT),
        (row("a", ALIVE, 4), ALIVE),
        (row("a", DEAD, 3), ALIVE),
        (row("a", DEAD, 4), DEAD),
        (row("a", SUSPECT, 4), DEAD),
        (row("a", ALIVE, 5), ALIVE),
        (row("b", DEAD, 9), ALIVE),
    ]:
        member.learn([update], 1.0)
        assert member.members["a"].state is state
    assert "b" not in member.members, "the dead are not introduced"


def test_a_suspicion_shortens_as_others_confirm_it() -> None:
    """Each member counts once."""
    others = [row(f"n{number}") for number in range(20)]
    seconds = []
    for confirming in ([], ["x", "x"], ["x", "y", "z"]):
        member = swim(*others)
        member.learn([row("n1", SUSPECT, by=name) for name in ("w", *confirming)], 0.0)
        seconds.append(next(t for t in range(1, 99) if member.tick(float(t)) is not None and member.dead()))
    assert seconds[0] > seconds[1] > seconds[2]


def test_a_suspect_gets_to_know_it_with_the_next_packet() -> None:
    """Whatever else there is to tell."""
    news = [row(f"n{number}") for number in range(20)]
    member = swim(*news, row("a", SUSPECT, 1, by="b"))

    [ack] = member.receive(Packet(kind="ping", sender="a", incarnation=1, target="me", number=5), HERE, 1.0)

    assert ack.packet.updates[0].name == "a"
    assert ack.packet.updates[0].state is SUSPECT
    assert len(ack.packet.updates) <= UPDATES_MAX


def test_news_that_was_sent_least_goes_first_and_none_for_ever() -> None:
    """So that all of it gets its turn."""
    queue = UpdateQueue()
    for name in "abc":
        queue.add(name)

    assert queue.take(2, 2) == ["a", "b"]
    assert queue.take(2, 2) == ["c", "a"]
    assert queue.take(9, 2) == ["b", "c"]
    assert queue.take(9, 2) == []


def test_a_rumour_about_oneself_is_refuted() -> None:
    """Whatever incarnation it names; another's name for it changes nothing else."""
    member = swim()
    member.learn([row("me", DEAD, 7)], 1.0)
    member.learn([row("me", SUSPECT, 3)], 1.0)

    assert member.incarnation == 8
    assert "me" not in member.members
