"""Every "why", as pure functions: a view goes in, a verdict with its reason comes out.

No clock, no database, no network, no logger in here; the caller brings `now` and the jitter.

- `retry.py`      what happens to a shard after a failure
- `lifecycle.py`  what state a job is in
- `resume.py`     whether an image must be done again
"""
