"""The store: log, jobs, leases, roles, records and links, in one transactional database."""
