"""The operator's commands over HTTP, and what a tenant's own services may do of them.

`table.py` is the one table of routes. Behind each stands a function of `gateway/admin/`, the same that the command calls; what is
here reads bodies strictly, says who calls, and writes answers.
"""
