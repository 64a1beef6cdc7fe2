"""The page stands alone, holds every decision, and lets nobody else speak."""

import xml.etree.ElementTree as tree
from html.parser import HTMLParser

import pytest

from ringrift.cli.html_report import as_page
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
    """Each with the whole name of its model, and promotions with score, blocks and likelihood ratio."""
    seen = Seen(page)

    for variant in VARIANTS:
        assert all(one.model in seen.text for one in decisions(variant))
    assert "0.700" in seen.text
    assert "3.10 of -2.94 … 2.94" in seen.text


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


def test_each_variant_has_its_drawing(page: str) -> None:
    """One mark for each decision: dots for promotions, crosses for rejections."""
    tags = [(tag, attributes.get("class")) for tag, attributes in Seen(page).tags]

    assert [tag for tag, _ in tags].count("svg") == len(VARIANTS)
    assert tags.count(("circle", "up")) == 3 * len(VARIANTS)
    assert tags.count(("path", "no")) == len(VARIANTS)


def test_the_proof_is_told_with_its_verdict(page: str) -> None:
    """What missed says so; without a proof the page says that there is none."""
    seen, without = Seen(page).text, Seen(as_page(report(*VARIANTS))).text

    assert "NOT PROVEN: 2 of 2 claims missed" in seen
    assert "only 0 of 256 games were played" in seen
    assert "No proof was played" in without


def test_a_run_that_decided_nothing_has_a_page() -> None:
    """Stopped in its first second."""
    empty = report()

    assert "This run" in Seen(as_page(empty)).text
