"""Typical errors for docs/reference/errors.md: how each comes about, its message, and what to do about it."""

from ringrift.kernel import errors
from ringrift.kernel.errors import RingriftError

BLOB = "9f2c4e61ab03d7585e0c1b7a6f4d2e9081c3b5a7d9e1f20413254657687980ab"

EXAMPLES: tuple[tuple[RingriftError, str, str], ...] = (
    (
        errors.Unreachable("data/coordination/coordinator.db: IOError: disk I/O error"),
        "The disk of the store fails, or its file was removed while a node runs.",
        "Check the disk, then start the node again: it recovers by itself. The last transaction may be lost.",
    ),
    (
        errors.Overdue(1.0),
        "A reaction or handler awaits something slow inside a transaction.",
        "Move the slow part out of the transaction, or raise `store.tx_seconds_max`.",
    ),
    (
        errors.Overtaken("mailer", 120, 180),
        "Two processes run a durable handler under the same name.",
        "Give each handler its own name, or stop one of the processes.",
    ),
    (
        errors.Overtaken("mailer", 120, None),
        "A durable handler did not run for longer than `bus.lapse_seconds`, and the log was compacted without it.",
        "`ringrift readers forget mailer` lets it start with the events that are still in the log.",
    ),
    (
        errors.SchemaTooNew("data/coordination/coordinator.db", 9, 7),
        "The store was written by a newer version.",
        "Upgrade RingRift, or restore a backup of the older store.",
    ),
    (
        errors.UnsafeFilesystem("/mnt/nfs/coordinator.db", "nfs"),
        "The home folder lies on a network filesystem, where SQLite's locks do not work.",
        "Set `RINGRIFT_HOME` to a folder on a local disk.",
    ),
    (
        errors.LeaseLost(("01JC8Q6W2M",)),
        "A node was paused or cut off for longer than `work.lease_seconds`, and another node took its job over.",
        "Nothing: the result of the new holder counts. If it happens often, raise `work.lease_seconds`.",
    ),
    (
        errors.NotLeader("coordinator", "node-1 (process 4711)"),
        "A second coordinator is started on the same store.",
        "Use the running one, or stop it first.",
    ),
    (
        errors.Corrupt(BLOB, "node nas-1"),
        "A file was damaged on the disk or on the way.",
        "Nothing if another copy exists: it is fetched from there. Check the disk of that node.",
    ),
    (
        errors.NoRoute(BLOB, ("gpu-1", "gpu-2")),
        "A job needs a file, and no node that holds it can be reached.",
        "Start one of the nodes that were tried. Without any copy the file is given up, and the loop goes on.",
    ),
    (
        errors.NodeAway("gpu-1"),
        "A command is for a node that does not run, or that cannot be reached.",
        "Start the node; `ringrift status` lists the nodes that are present.",
    ),
    (
        errors.NoRoom("/data/blobs"),
        "The disk of a node is full.",
        "Free some space: the daemon that was waiting goes on by itself.",
    ),
    (
        errors.TimedOut("mailer", 600.0),
        "A handler took longer for one event than `bus.handler_seconds_max`.",
        "Let the handler do less, or raise the limit. The event is delivered again later.",
    ),
    (
        errors.Unbound("my_daemon", "stroe"),
        "A daemon of a plug-in has a keyword-only parameter that is no part of a node, here a misspelled `store`.",
        "Correct the name of the parameter.",
    ),
    (
        errors.GaveUp("fill", 5, 300.0),
        "A daemon failed again and again, and its restart budget is used up.",
        "`ringrift alerts` shows the error. Mend its cause, then run `ringrift daemons clear fill`.",
    ),
    (
        errors.JobFailed("the dataset has no samples", retry=False),
        "The workload refused a job.",
        "See `ringrift why VARIANT`; a job that can be retried is retried by itself.",
    ),
    (
        errors.ChildDied("the worker ended with signal 9"),
        "The worker process was killed, often because the machine ran out of memory.",
        "Nothing: the job is tried again. If it happens often, lower `work.slots`.",
    ),
    (
        errors.InvalidPayload("$.node", "Expected `str`, got `int`"),
        "An event from outside has a field of the wrong type.",
        "Correct the field; docs/reference/events.md lists the fields of every event.",
    ),
    (
        errors.TooLarge(70_000, 65_536),
        "The payload of an event is larger than an event may be.",
        "Store the data as a blob, and put its name into the event.",
    ),
    (
        errors.InvalidId("node", "gpu 1", "use 1 to 64 letters, digits, - and _"),
        "A name contains a character that is not allowed, here a space.",
        "Choose a name of the allowed characters.",
    ),
    (
        errors.IdConflict("batch-17"),
        "Two different events were published under the same id.",
        "Use a new id for each event; the same id with the same content is published once.",
    ),
    (
        errors.IllegalTransition("4be1d09f3a7c", "lost", "champion", ("candidate",)),
        "An operator asks for a change that the life of a model does not have.",
        "Choose one of the states that the message lists; `ringrift models` shows the state of each model.",
    ),
    (
        errors.LoopDetected("custom.published", 16),
        "A handler publishes the kind of event that it is called for.",
        "Let the handler ignore the events that it causes.",
    ),
    (
        errors.Backpressure("store", 10_000),
        "Events are published faster than the disk can store them.",
        "Publish more slowly, or several events at once with `publish_many`.",
    ),
    (
        errors.LimitReached("task train-hex8_2p-3", "running on this node", 2, 2),
        "A program asks to start a task, and the limit of running tasks is reached.",
        "Wait until a task ends, or raise the limit.",
    ),
    (
        errors.UnknownName("daemon", "fil", ("beat", "elect", "fill")),
        "A name is misspelled.",
        "Choose one of the names that the message lists.",
    ),
    (
        errors.NoChampion("hex8_2p", "hex8_2p has no champion yet"),
        "`ringrift play` is called before the loop has promoted a model.",
        "Run the loop first, or name another opponent.",
    ),
    (
        errors.MissingExtra("torch", "train"),
        "Training is started on a machine where PyTorch is not installed.",
        "Run the line that the message shows.",
    ),
    (
        errors.SettingsError("work.slots", 0, "must lie between 1 and 1024"),
        "A setting in the file, the environment or on the command line is outside its range.",
        "Correct the value; docs/reference/settings.md lists every range.",
    ),
)
"""Each error as the code makes it, the situation in which it appears, and what to do."""
