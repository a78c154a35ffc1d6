"""The stand-in provider and the guided demo. No other part of the gateway imports this package."""
