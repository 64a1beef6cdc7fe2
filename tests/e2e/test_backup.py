"""Backups of real processes: taken while the loop runs, killed anywhere, restored to an empty home where it goes on."""

import json
import re
import shutil
from pathlib import Path

import pytest

from e2e.processes import EXIT_FAILPOINT, QUICK, Home, kill, reached
from e2e.test_join import BATCHES, ISLAND, batches, join, make_token, serve, spool
from s3_server import S3Server

VARIANT = "hex8_2p"
GAMES = re.compile(rb"games\xa4blob\xd9@([0-9a-f]{64})")  # in a result as it lies in the spool


def wipe(home: Home) -> None:
    """Leave of a home what no backup has: its settings."""
    settings = (home.path / "ringrift.toml").read_text()
    shutil.rmtree(home.path)
    home.path.mkdir()
    (home.path / "ringrift.toml").write_text(settings)


def notes(place: Path) -> list[str]:
    """The names of the backups at *place*."""
    return sorted(path.name for path in (place / "backups").glob("*.json"))


def verify(home: Home) -> None:
    """Doctor finds nothing, every line is right, and every slot of work is accounted for."""
    code, output = home.run("doctor", "--json")
    assert code == 0, output
    assert home.lines()
    assert home.unbalanced() == []


def test_the_loop_goes_on_from_a_backup(home: Home, tmp_path: Path) -> None:
    """The drill: a backup while it runs, the home destroyed, a rehearsal, a restoration, and more promotions."""
    place = tmp_path / "place"
    loop = home.start("run", "--iterations", "50", "--variants", VARIANT)
    reached(loop, lambda: home.has("SELECT 1 FROM log WHERE name = 'model.promoted' LIMIT 1 OFFSET 1"))
    code, output = home.run("backup", str(place))
    assert code == 0, output
    assert loop.poll() is None, "the loop ran on meanwhile"
    kill(loop)
    wipe(home)

    code, output = home.run("restore", str(place), "--drill")
    assert code == 0, output
    assert "all verified" in output
    assert [path.name for path in home.path.iterdir()] == ["ringrift.toml"], "a drill leaves nothing"

    code, output = home.run("restore", str(place), "--json")
    assert code == 0, output
    restoration = json.loads(output[output.index("{") :])["restoration"]
    assert restoration["epoch"] == 2
    verify(home)
    before = home.lines()[VARIANT]
    fences = home.ask("SELECT fence FROM jobs WHERE state = 'ready'")
    assert fences
    assert min(fence for (fence,) in fences) >= 2 << 32

    code, output = home.run("run", "--iterations", str(before.iteration + 1), "--variants", VARIANT)
    assert code == 0, output
    after = home.lines()[VARIANT]
    assert after.iteration > before.iteration
    assert after.counts.games > before.counts.games
    assert all(count == 1 for count in home.batches()[VARIANT].values())
    assert min(term for (term,) in home.ask("SELECT term FROM roles")) > 2 << 32
    verify(home)


@pytest.mark.parametrize("point", ["backup.after_copy", "backup.before_note", "backup.before_prune"])
def test_a_backup_that_was_killed_is_whole_or_none(played: Home, tmp_path: Path, point: str) -> None:
    """What counts as a backup can be restored, and the next one goes on; nothing is left in the home."""
    place = tmp_path / "place"
    process = played.start("backup", str(place), "--keep", "1", failpoint=(point, 1))
    process.communicate(timeout=60)
    assert process.returncode == EXIT_FAILPOINT
    assert len(notes(place)) == (point == "backup.before_prune")

    code, output = played.run("backup", str(place), "--keep", "1")
    assert code == 0, output
    assert len(notes(place)) == 1
    assert not list((played.path / "coordination").glob("backup.tmp*"))
    code, output = played.run("restore", str(place), "--drill")
    assert code == 0, output


def test_a_restoration_that_was_killed_is_no_home(played: Home, tmp_path: Path) -> None:
    """There is no store until it is whole, and the next try makes one."""
    place = tmp_path / "place"
    assert played.run("backup", str(place))[0] == 0
    wipe(played)

    process = played.start("restore", str(place), failpoint=("restore.before_rename", 1))
    process.communicate(timeout=60)
    assert process.returncode == EXIT_FAILPOINT
    assert not played.database.exists()
    code, output = played.run("status")
    assert code != 0, output

    code, output = played.run("restore", str(place))
    assert code == 0, output
    verify(played)


def test_a_home_comes_back_from_a_bucket(played: Home, s3: S3Server) -> None:
    """The same over S3, with credentials that stand in no file and no output."""
    code, output = played.run("backup", s3.address)
    assert code == 0, output
    outputs = [output]
    wipe(played)
    for words in (("restore", s3.address, "--drill"), ("restore", s3.address)):
        code, output = played.run(*words)
        assert code == 0, output
        outputs.append(output)

    verify(played)
    code, output = played.run("run", "--iterations", "1", "--variants", VARIANT)
    assert code == 0, output
    secret = s3.variables["AWS_SECRET_ACCESS_KEY"]
    texts = [path.read_bytes() for path in played.path.rglob("*") if path.is_file()]
    assert not [text for text in (*texts, *(output.encode() for output in outputs)) if secret.encode() in text]


def test_workers_go_on_with_the_restored_store(tmp_path: Path) -> None:
    """By the keys they have; what they played for the store that is gone counts once, and never as its job's result."""
    # No second model while it runs: the restored store refuses games of one that it does not know.
    settings = QUICK.replace("games_per_export = 60", "games_per_export = 10000")
    home, own, place = Home(tmp_path / "c", settings), Home(tmp_path / "w", ISLAND), tmp_path / "place"
    try:
        coordinator, address = serve(home)
        (own.path / "token").write_text(make_token(home))
        worker = join(own, address, "--token-file", str(own.path / "token"))
        reached(worker, lambda: home.has(BATCHES, "selfplay.batch_finished") and len(batches(home)) >= 1)
        code, output = home.run("backup", str(place))
        assert code == 0, output
        backed_up = set(batches(home))
        kill(coordinator)
        reached(worker, lambda: any(GAMES.search(path.read_bytes()) for path in spool(own)))
        played = {blob.decode() for path in spool(own) for blob in GAMES.findall(path.read_bytes())}
        wipe(home)
        assert home.run("restore", str(place))[0] == 0

        serve(home, int(address.rpartition(":")[2]))
        reached(worker, lambda: played <= set(batches(home)) and len(batches(home)) >= 4)
        counted = batches(home)
        assert len(set(counted)) == len(counted)
        assert backed_up & set(counted)
        assert home.unbalanced() == []
    finally:
        for each in (own, home):
            each.clear()


def test_settings_are_enough(home: Home, tmp_path: Path) -> None:
    """A loop with a place and a mirror in its settings makes backups of its own, and mirrors every file."""
    place, mirror = tmp_path / "place", tmp_path / "mirror"
    options = (
        f"backup.place={place}",
        f"backup.mirror={mirror}",
        "backup.mirror_seconds=0.5",
        "backup.every_seconds=5",
    )
    words = [word for option in options for word in ("--set", option)]
    loop = home.start("run", "--iterations", "50", "--variants", VARIANT, *words)

    def listed(node: str) -> set[str]:
        ids = home.ask("SELECT id FROM records WHERE kind = 'holding' AND id LIKE '%@' || ?", node)
        return {id.partition("@")[0] for (id,) in ids}

    reached(loop, lambda: home.has("SELECT 1 FROM log WHERE name = 'model.promoted' LIMIT 1 OFFSET 1"))
    reached(loop, lambda: len(notes(place)) >= 2 and len(listed("mirror")) >= 5)
    kill(loop)

    assert not [row for row in home.records("alert") if row["kind"] in ("backup", "mirror") and row["until"] is None]
    assert listed("mirror") <= {path.name for path in mirror.glob("??/*")}
    code, output = home.run("restore", str(place), "--drill")
    assert code == 0, output


def test_commands_say_what_to_do(played: Home, tmp_path: Path) -> None:
    """Without a place, over a store, and at a place without backups."""
    for words, reason in (
        (("backup",), "name a place"),
        (("backup", str(tmp_path / "x"), "--keep", "0"), "at least 1"),
        (("restore", str(tmp_path / "x")), "no backup at"),
    ):
        code, output = played.run(*words)
        assert (code, "Traceback" in output) == (2, False), output
        assert reason in output
    assert played.run("backup", str(tmp_path / "x"))[0] == 0
    code, output = played.run("restore", str(tmp_path / "x"))
    assert (code, "move it away" in output) == (2, True)
    code, output = played.run("backup", str(tmp_path / "x"), "--list")
    assert (code, output.count("\n")) == (0, 2)
