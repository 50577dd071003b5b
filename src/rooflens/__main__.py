"""`python -m rooflens`."""

from rooflens.cli import main

main()
