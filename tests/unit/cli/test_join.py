"""``ringrift join`` and ``leave``: what they refuse, with what to do, before anything is sent or stored."""

import io
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ringrift.cli.main import main
from ringrift.cli.worker_home import Membership, WorkerHome
from ringrift.kernel.errors import SettingsError
from ringrift.wire.keys import SigningKey

ADDRESS, NOBODY = "http://127.0.0.1:8770", "http://127.0.0.1:9"
FORGED = "rr-00000000-cafecafecafecafecafecafecafecafecafecafe"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home that does not exist yet."""
    monkeypatch.setenv("RINGRIFT_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("RINGRIFT_CLUSTER_AUTH_TOKEN", raising=False)
    monkeypatch.delenv("RINGRIFT_COORDINATOR_URL", raising=False)
    return tmp_path / "home"


@pytest.fixture
def output(capsys: pytest.CaptureFixture[str]) -> Any:
    """A function that runs a command: its exit code, and what it printed."""

    def call(*words: str) -> tuple[object, str]:
        with pytest.raises(SystemExit) as end:
            main(words)
        return end.value.code, "".join(capsys.readouterr())

    return call


def joined(home: Path, node: str = "w1") -> WorkerHome:
    """A home that has joined."""
    made = WorkerHome(str(home))
    made.new_key(node, Random(1))
    made.save(Membership(addresses=(NOBODY,), profile="full"), "")
    return made


@pytest.mark.parametrize(
    "words", [(ADDRESS, FORGED), (ADDRESS, "--token-file", FORGED), (ADDRESS, f"--token-file={FORGED}")]
)
def test_a_token_on_the_command_line_is_refused_and_not_repeated(
    home: Path, output: Any, words: tuple[str, ...]
) -> None:
    """Every user of the machine can read it there; the error says how to give one, and does not show it."""
    code, text = output("join", *words)

    assert code == 2
    assert "refused on the command line" in text
    assert "--token-file -" in text
    assert FORGED not in text


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ((ADDRESS,), "ringrift nodes token"),
        ((), "give the address of a coordinator"),
        (("ftp://host",), "node.coordinators"),
        ((ADDRESS, "--token-file", "/nowhere/token"), "No such file"),
        ((ADDRESS, "--token-file", "/proc/self/environ"), "token"),
        ((ADDRESS, "--label", "zone"), "must be KEY=VALUE"),
        ((ADDRESS, "--profile", "coordinator"), "coordinator"),
        ((ADDRESS, "--set", "node.profile=coordinator"), "a worker is one of"),
    ],
)
def test_wrong_input_is_named(home: Path, output: Any, words: tuple[str, ...], part: str) -> None:
    """Each error names what was refused; nothing is stored."""
    code, text = output("join", *words)

    assert code == 2, text
    assert part in text
    assert not (home / "keys" / "node.json").exists()


def test_a_token_may_come_in_four_ways(
    home: Path, output: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the environment, a file or standard input; then the address is tried, and its silence is the error."""
    (tmp_path / "token").write_text(f"{FORGED}\n")
    monkeypatch.setenv("RINGRIFT_CLUSTER_AUTH_TOKEN", FORGED)
    assert "cannot be reached" in output("join", NOBODY)[1]
    assert "cannot be reached" in output("join", NOBODY, "--token-file", str(tmp_path / "token"))[1]
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{FORGED}\n"))
    code, text = output("join", NOBODY, "--token-file", "-")
    assert code == 1
    assert "cannot be reached" in text
    assert FORGED not in text


def test_the_key_of_a_join_without_an_answer_is_used_again(home: Path) -> None:
    """The coordinator may have stored it: the same key succeeds with the same token, another one would be refused."""
    made = WorkerHome(str(home))
    key = made.new_key("w1", Random(1))
    assert made.new_key("w1", Random(2)).public == key.public
    assert made.new_key("w2", Random(2)).node == "w2"
    assert made.key() is None  # it has not joined
    assert not [path for path in (home / "keys").iterdir() if path.stat().st_mode & 0o077]


def test_a_home_that_others_can_read_the_key_of_is_refused(home: Path, output: Any) -> None:
    """A key that somebody may have copied proves nothing."""
    joined(home).key_path.chmod(0o644)

    code, text = output("join", ADDRESS)

    assert code == 2
    assert "chmod 600" in text


def test_a_home_has_one_name_and_one_worker(home: Path, output: Any) -> None:
    """Its key is that of one node; a second process with it would be a second node with one identity."""
    made = joined(home)
    code, text = output("join", ADDRESS, "--set", "node.id=other")
    assert code == 2
    assert "this home joined as w1" in text
    with made.alone():
        assert made.running() is not None
        code, text = output("join", ADDRESS)
        assert code == 2
        assert "runs already" in text
    assert made.running() is None


def test_leaving_says_what_was_not_told(home: Path, output: Any) -> None:
    """Without a coordinator a worker can leave, and nothing is forgotten; giving up the key needs one."""
    code, text = output("leave")
    assert code == 2
    assert "no worker of this home has joined" in text

    made = joined(home)
    code, text = output("leave")
    assert code == 0
    assert "no coordinator was told" in text
    code, text = output("leave", "--forget")
    assert code == 1
    assert made.key() is not None


def test_a_key_file_is_the_only_place_of_the_key(home: Path) -> None:
    """What the home stores about its membership does not contain it."""
    made = joined(home)
    key = SigningKey.make("w1", Random(1))

    assert made.key() is not None
    assert key._seed.hex() not in (home / "keys" / "joined.json").read_text()
    (home / "keys" / "joined.json").write_text("{")
    with pytest.raises(SettingsError, match="cannot be read"):
        made.membership()
