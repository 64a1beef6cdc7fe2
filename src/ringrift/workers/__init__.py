"""The child-process side of a job."""
