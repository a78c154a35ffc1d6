"""The tenants' audit logs: events, the writers' chains, and the log that puts them in order before anything is done."""
