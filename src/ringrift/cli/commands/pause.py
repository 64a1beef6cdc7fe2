"""Start no new jobs in the cluster, a node, a variant or a stage; running jobs go on, and champions stay."""

from ringrift.cli.brakes import brake_command

COMMAND = brake_command("paused")
