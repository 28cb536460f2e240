"""The process that works for one system: `python -m benchmarks.queue_worker MODULE ADDRESS…` calls its `work`.

Through a module of its own: systems name jobs by the module that defines them, and that must not be `__main__`.
"""

import importlib
import sys

if __name__ == "__main__":
    importlib.import_module(sys.argv[1]).work(*sys.argv[2:])
