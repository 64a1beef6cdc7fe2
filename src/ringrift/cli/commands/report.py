"""Write the report page of the last run, and its data beside it, from what the store has now."""

from contextlib import suppress
from pathlib import Path

from ringrift.cli import html_report, report
from ringrift.cli.command import Command, Context, Output, Parser
from ringrift.cli.runs import RUNS, RunRecord
from ringrift.kernel.errors import InputError, RingriftError, SettingsError
from ringrift.kernel.settings import SETTING_TYPES, Settings
from ringrift.kernel.value import changed
from ringrift.workload.api import HasRequirements
from ringrift.workload.registry import Registry

_ENDINGS = (".html", ".json")


def _arguments(parser: Parser) -> None:
    text = "the page; the data is beside it, as FILE.json (default: report.html in RINGRIFT_HOME)"
    parser.add_argument("file", nargs="?", metavar="FILE", help=text)


def _settings_of(run: RunRecord, now: Settings) -> Settings:
    """The settings of *run* at the store of *now*; one that this version does not have is left out."""
    names = [key for key in run.settings if key in SETTING_TYPES or key.startswith("work.params.")]
    own = {key: run.settings[key].value for key in names}
    return changed(Settings().overlaid(own), store=now.store)


def _requirements(settings: Settings) -> tuple[str, ...]:
    """The modules that the workload of a run needs; none if it is not installed any more."""
    with suppress(RingriftError):
        workload = Registry.load(settings.work.executables).get(settings.work.workload)
        return tuple(workload.requirements) if isinstance(workload, HasRequirements) else ()
    return ()


def _write(result: report.Report, file: Path) -> tuple[Path, Path]:
    """Write page and data and return their paths; a folder gets report.html.  Raises SettingsError."""
    file = file / "report" if file.is_dir() else file.with_suffix("") if file.suffix in _ENDINGS else file
    page, data = (Path(f"{file}{ending}") for ending in _ENDINGS)
    for path, text in ((page, html_report.as_page(result)), (data, report.as_json(result))):
        try:
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise SettingsError("report file", str(path), f"it cannot be written: {error.strerror or error}") from error
    return page, data


async def _question(context: Context) -> Output:
    """Raises InputError if there was no run, SettingsError if a file cannot be written."""
    async with context.store.read() as view:
        runs = await RUNS.all(view)
    if not runs:
        raise InputError('no run is recorded in this store: there is nothing to report; start one with "ringrift run"')
    run, settings = runs[-1], _settings_of(runs[-1], context.settings)
    ended = context.clock.now() if run.ended is None else run.ended
    about = report.about(settings, _requirements(settings), run.began, ended)
    result = await report.gather(context.store, about, run.proof)
    page, data = _write(result, Path(context.options.file or context.effective.home))
    notes = ["it has not ended in good order: it goes on, or was killed"] if run.ended is None else []
    notes += [] if run.proof else ["no proof is recorded for it"]
    text = f"report of run {run.id}: {page} (data: {data})" + "".join(f"\n{note}" for note in notes)
    return Output(value={"run": run.id, "page": str(page), "data": str(data), "notes": notes}, text=text)


COMMAND = Command(arguments=_arguments, question=_question)
