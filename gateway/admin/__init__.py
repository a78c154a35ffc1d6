"""What operators do to tenants, keys and IDs: the functions behind the commands. Every change is an audit event.

Code that knows raw IDs sits in `ids.py` alone.
"""
