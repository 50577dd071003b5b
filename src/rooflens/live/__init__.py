"""What runs on this machine: its facts, its ceilings and the probes beside a run. Heavy imports stay in functions."""
