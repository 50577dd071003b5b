"""The outside world to core nouns: one file per format."""
