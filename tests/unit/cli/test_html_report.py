"""The page stands alone, holds every decision, and lets nobody else speak."""

import xml.etree.ElementTree as tree
from html.parser import HTMLParser

import pytest

from ringrift.cli.html_report import as_page
from ringrift.kernel.value import changed
from unit.cli.example_report import EVIL, decisions, findings, report

VARIANTS = ("square8_2p", "hex8_3p")
VOID = ("meta",)


class Seen(HTMLParser):
    """Every tag with its attributes and all text, and whether tags close in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture
def page() -> str:
    """The page of a run of two variants."""
    return as_page(report(*VARIANTS, proof=findings("square8_2p")))


def test_the_page_is_well_formed(page: str) -> None:
    """As HTML and, but for its first line, as XML."""
    Seen(page)
    tree.fromstring(page.removeprefix("<!DOCTYPE html>\n"))


def test_every_decision_is_there(page: str) -> None:
    """Each with a short name of its model, whose whole one is its title, with score, blocks and likelihood ratio."""
    seen = Seen(page)

    titles = {attributes.get("title") for tag, attributes in seen.tags if tag == "code"}
    for variant in VARIANTS:
        assert titles >= {decision.model for decision in decisions(variant)}
        assert all(decision.model[:10] in seen.text for decision in decisions(variant))
        assert not any(decision.model in seen.text for decision in decisions(variant))
    assert "0.700" in seen.text
    assert "3.10 of -2.94 … 2.94" in seen.text.replace("\N{NO-BREAK SPACE}", " ")


def test_the_page_needs_nothing_else(page: str) -> None:
    """No script, no link, no picture, no address."""
    seen = Seen(page)

    assert not {"script", "link", "img", "iframe", "object"} & {tag for tag, _ in seen.tags}
    assert not any({"src", "href", "onload"} & set(attributes) for _, attributes in seen.tags)
    assert "http" not in page
    assert "url(" not in page


def test_what_others_wrote_is_text(page: str) -> None:
    """Reasons and parameters that look like HTML are shown, not obeyed."""
    assert "<script>" not in page
    assert EVIL in Seen(page).text


def test_each_variant_has_its_drawings(page: str) -> None:
    """Strength, loss and games a second; dots for promotions, crosses for rejections, a band for the bounds."""
    tags = [(tag, attributes.get("class")) for tag, attributes in Seen(page).tags]

    assert [tag for tag, _ in tags].count("svg") == 3 * len(VARIANTS)
    assert tags.count(("circle", "up")) == 3 * len(VARIANTS)
    assert tags.count(("path", "no")) == len(VARIANTS)
    assert tags.count(("polygon", "band elo")) == len(VARIANTS)
    assert tags.count(("polyline", "curve other")) == len(VARIANTS)


def test_every_axis_has_its_quantity_and_unit(page: str) -> None:
    """Elo over what, loss, games per second, by minutes since when; and every drawing says so to a reader."""
    seen = Seen(page)

    labels = [attributes["aria-label"] for tag, attributes in seen.tags if tag == "svg"]
    quantities = ("Elo over generation 0", "loss", "games per second")
    assert labels == [f"{quantity} by minutes since generation 0" for quantity in quantities] * len(VARIANTS)
    assert all(seen.text.count(quantity) >= len(VARIANTS) for quantity in (*quantities, "minutes since generation 0"))


def test_a_champion_without_a_rating_is_named(page: str) -> None:
    """The last promotion of a run may be newer than the last computation: the curve ends before it, and says so."""
    result = report("hex8_3p")
    early = changed(result, elo={"hex8_3p": result.elo["hex8_3p"][:-1]})

    assert "too new to be rated" not in page
    assert "Generation 2 is too new to be rated." in Seen(as_page(early)).text


def test_throughput_and_rejected_candidates_are_there(page: str) -> None:
    """Each with its unit; a rejected candidate with its reason."""
    text = Seen(page).text

    for part in ("2.0 games/s", "768 games", "5000 positions", "2.5 times", "25.0 steps/s", "selfplay 60%"):
        assert text.count(part) == len(VARIANTS), part
    rejected = text.partition("Rejected candidates")[2]
    assert "likelihood ratio below the lower bound" in rejected


def test_all_runs_together_have_their_time(page: str) -> None:
    """The time of this run and of the one before it."""
    assert "20 min 30 s in 2 runs" in Seen(page).text
    assert "in 2 runs of 20 min 30 s together." in Seen(page).text


def test_the_settings_of_the_run_are_there(page: str) -> None:
    """What was set first, with its origin; all of them in a part that opens without a script."""
    seen = Seen(page)

    own, _, every = seen.text.partition("Settings that differ from the defaults")[2].partition("all 2 settings")
    assert "work.params.note" in own
    assert "command line" in own
    assert "work.slots" not in own
    assert "work.slots" in every
    assert ("details", {}) in seen.tags


def test_the_proof_is_told_with_its_verdict(page: str) -> None:
    """What missed says so; without a proof the page says that there is none."""
    seen, without = Seen(page).text, Seen(as_page(report(*VARIANTS))).text

    assert "NOT PROVEN: 2 of 2 claims missed" in seen
    assert "only 0 of 256 games were played" in seen
    assert "No proof is recorded" in without


def test_a_run_that_decided_nothing_has_a_page() -> None:
    """Stopped in its first second, and a line for which nothing is known yet."""
    assert "This run" in Seen(as_page(report())).text
    blank = changed(report(*VARIANTS), decisions={name: () for name in VARIANTS}, elo={}, trainings={}, figures={})
    text = Seen(as_page(changed(blank, runs=()))).text
    assert "This run" in text
    assert "10 min 30 s in 1 run" in text
