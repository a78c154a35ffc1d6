"""The audit console: pages in which a tenant's auditors read, search, verify and export their own log.

A process of its own needs the audit root key and the store, nothing else: no code here can reach a raw ID, a record or the
upstream. Every page works without JavaScript. Everything that a page shows is text of somebody else: it is escaped, cut, and
what cannot be seen in it is made visible.
"""
