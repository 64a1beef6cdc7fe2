"""The documented pipeline: its status, its stages, its models and the files that events bring."""
