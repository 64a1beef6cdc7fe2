"""Remembering: the log, jobs, leases, records and links, in one transactional store."""
