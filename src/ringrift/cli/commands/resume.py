"""Start jobs again in the cluster, a node, a variant or a stage that was paused, drained or stopped."""

from ringrift.cli.brakes import resume_command

COMMAND = resume_command()
