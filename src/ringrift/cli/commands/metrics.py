"""Print the metrics of every line as Prometheus text; write their curves as CSV files or for TensorBoard."""

from pathlib import Path

from ringrift.cli.command import Command, Context, Output, Parser
from ringrift.cli.metric_files import Curves, as_prometheus, write_csv, write_tensorboard
from ringrift.pipeline.metrics import line_metrics, metric_history
from ringrift.pipeline.ratings import elo_of
from ringrift.store.ports import Reads


def _arguments(parser: Parser) -> None:
    parser.add_argument("--variant", metavar="NAME", help="only this variant, e.g. hex8_2p")
    parser.add_argument("--csv", metavar="DIR", help="write the curves to CSV files in this folder")
    parser.add_argument("--tensorboard", metavar="DIR", help="write TensorBoard event files to this folder")


async def _read_curves(view: Reads, variant: str, now: float) -> Curves:
    line, players = await line_metrics(view, variant, now), tuple(await elo_of(view, variant))
    return Curves(line=line, trainings=tuple(await metric_history(view, variant)), players=players)


async def _question(context: Context) -> Output:
    """The figures of now, or what was written.  Raises UnknownName, InputError, SettingsError."""
    options, now = context.options, context.clock.now()
    async with context.store.read() as view:
        curves = [await _read_curves(view, line.variant, now) for line in await context.lines(view)]
        jobs = await view.count_jobs()
    if options.csv is None and options.tensorboard is None:
        return Output(value=curves, text=as_prometheus(curves, jobs))
    paths = write_csv(curves, Path(options.csv)) if options.csv is not None else []
    if options.tensorboard is not None:
        paths += write_tensorboard(curves, Path(options.tensorboard))
    text = "\n".join(f"written: {path}" for path in paths) or "no lines yet: nothing was written"
    return Output(value={"written": [str(path) for path in paths]}, text=text)


COMMAND = Command(arguments=_arguments, question=_question)
