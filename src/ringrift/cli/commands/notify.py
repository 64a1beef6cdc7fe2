"""Send a test message to the webhook or the command of the settings."""

from ringrift.cli.command import EXIT_FAILED, Command, Context, Output, Parser
from ringrift.daemons.notify import targets_of
from ringrift.kernel.errors import DeliveryError, SettingsError

_EVENT, _TEXT = "notify.test", "test message of ringrift: notifications arrive here"


def _arguments(parser: Parser) -> None:
    parser.add_argument("verb", choices=("test",), help="test: send a message now, without a store or a node")


def _prepare(context: Context) -> Output:
    """Exit code 1 if a target does not take the message."""
    settings, now = context.settings.notify, context.clock.now()
    targets = targets_of(settings)
    if not targets:
        raise SettingsError("notify.url", settings.url, "nothing is set: set notify.url or notify.command")
    message = {"event": _EVENT, "key": f"test@{now:.6f}", "text": _TEXT, "id": "", "time": now}
    results = dict[str, str]()
    for name, send in targets.items():
        try:
            send({**message, "node": context.settings.node.id, "body": {}})
            results[name] = "sent"
        except DeliveryError as error:
            results[name] = f"not sent: {error}"
    code = 0 if set(results.values()) == {"sent"} else EXIT_FAILED
    text = "\n".join(f"notify.{name}: {result}" for name, result in results.items())
    return Output(value=results, text=text, code=code)


COMMAND = Command(arguments=_arguments, prepare=_prepare)
