"""Streams of a tenant's log to its own systems: signed batches over HTTPS, at least once, in the order of the log."""
