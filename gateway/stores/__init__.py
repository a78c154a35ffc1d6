"""Shared state: the contract, Redis behind it, and the records. `contract.py` and `redis.py` never open a record."""
