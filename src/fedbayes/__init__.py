"""Bayesian personalised federated learning: five papers reproduced end to end."""
