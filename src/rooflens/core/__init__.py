"""Frozen nouns without I/O: what the other rooms hand to each other."""
