"""Rewriting: requests inbound, answers and events outbound. Pure: values in, values out."""
