"""A report says what came of a run, to people and to programs alike."""

import json

import msgspec

from ringrift.cli.report import Report, about, as_json, as_text, conclusion
from ringrift.kernel.settings import Policy, Settings
from unit.cli.example_report import decisions, findings, report


def test_the_text_names_every_promotion() -> None:
    """With score, Elo, blocks and likelihood ratio; the rejections are counted."""
    text = as_text(report("square8_2p"))

    promoted = [one for one in decisions("square8_2p") if one.promoted]
    assert all(one.model[:10] in text for one in promoted)
    assert "2 promotions, 1 rejected, 2304 games" in text
    assert "0.700  +147  40      3.10 of -2.94 … 2.94" in text
    assert "seed 4711" in text


def test_the_text_says_what_missed() -> None:
    """A claim that does not hold is stated with its reason; without a proof nothing is said of one."""
    missed = as_text(report("square8_2p", proof=findings("square8_2p")))

    assert "NOT PROVEN: 2 of 2 claims missed" in missed
    assert "missed: square8_2p: the champion scores above 0.5 against uct:200: only 0 of 256 games" in missed
    assert "PROVEN" not in as_text(report("square8_2p"))


def test_the_verdict_is_good_only_if_all_hold() -> None:
    """One claim that missed is enough."""
    one, other = (msgspec.structs.replace(finding, met=True) for finding in findings("square8_2p"))

    assert conclusion([one, other]) == "PROVEN: all 2 claims hold"
    assert conclusion([one, msgspec.structs.replace(other, met=False)]) == "NOT PROVEN: 1 of 2 claims missed"


def test_programs_read_the_same() -> None:
    """The JSON is the report."""
    whole = report("square8_2p", "hex8_3p", proof=findings("hex8_3p"))

    assert msgspec.convert(json.loads(as_json(whole)), Report, strict=False) == whole


def test_a_run_is_described_by_what_it_hung_on() -> None:
    """Seed, workload, gate, machine and versions."""
    settings = msgspec.structs.replace(Settings.local("/tmp/none"), policy=Policy(seed=5))

    run = about(settings, ("msgspec", "no_such_module"), 1.0, 2.0)

    assert (run["seed"], run["workload"], run["begun"], run["ended"]) == (5, "fake", 1.0, 2.0)
    assert run["cores"] >= 1
    assert set(run["versions"]) == {"ringrift", "python", "msgspec"}
    assert "0 against 35 Elo" in run["gate"]
