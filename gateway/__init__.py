"""Coatcheck: a gateway that fronts one shared OpenAI key for many tenants and shows none of them a service ID."""

__version__ = "0.1.0"
