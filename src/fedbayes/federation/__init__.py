"""The engine: rounds, clients as a batch axis, keyed randomness, checkpoints. It does not know which method runs."""

# Raised by hand when the engine's results change; part of every run's code digest (see codedigest.py).
# tests/federation/test_numerics.py compares toy bytes and fails when results changed and this did not.
NUMERICS = 1
