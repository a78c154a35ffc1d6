"""A tenant's log, searched: a query, what an event is found by, and an index that follows the log and can be lost."""
