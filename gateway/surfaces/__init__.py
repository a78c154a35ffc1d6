"""The table of surfaces: what the gateway serves, where IDs stand in it, and what it refuses and why."""
