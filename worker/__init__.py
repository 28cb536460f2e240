"""The GPU process: runs shards, one after another. Run as `python -m worker`."""
