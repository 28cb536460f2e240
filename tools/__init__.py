"""Scripts for people who work on samjobs; none of them is in the wheel."""
