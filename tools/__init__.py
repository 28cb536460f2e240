"""Scripts of the project, run as `python -m tools.NAME`."""
