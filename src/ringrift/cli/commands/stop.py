"""Stop the cluster, a node, a variant or a stage until it is resumed; with --now running jobs are stopped too."""

from ringrift.cli.brakes import brake_command

COMMAND = brake_command("stopped", now="emergency")
