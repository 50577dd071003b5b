"""The version, in the one place that packaging, documents and command line read."""

__version__ = "0.1.0"
