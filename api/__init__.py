"""The REST process: `python -m api`."""
