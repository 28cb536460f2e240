"""Work, wherever it runs: on a laptop now, in a GPU pod later.

- `shard.py`     one shard: lease, pipeline, progress, end
- `lease.py`     does this process still own its shard?
- `machine.py`   the engines and the storage that a process brings
- `local.py`     one machine at work on its own queue; `presence.py` tells which of its processes live
- `submit.py`    a request becomes rows
- `merge.py`     the files that gather a job's results
"""
