"""Measurements: backends that run a model on this machine and return its times."""
