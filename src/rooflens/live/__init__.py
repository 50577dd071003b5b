"""What the machine under a live run tells: its state, energy and hardware counters, and marks for a trace."""
