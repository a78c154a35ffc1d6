"""What an ID is: kinds and prefixes, the opaque form, the raw shape, and the keys behind them.

Pure code: values in, values out. No await, clock, randomness or environment; nonces and random keys are passed in.
"""
