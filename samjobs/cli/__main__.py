"""`python -m samjobs.cli` is `samjobs`."""

from samjobs.cli import main

main()
