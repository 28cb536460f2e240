"""The operator process: reconciles the job table with the queue. Run as `python -m controller`."""

ACTOR = "controller"  # in the events of what nobody but the pass wanted
