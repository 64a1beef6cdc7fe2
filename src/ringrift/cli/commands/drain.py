"""Let the running jobs of the cluster, a node, a variant or a stage finish, and start no others."""

from ringrift.cli.brakes import brake_command

COMMAND = brake_command("draining")
