"""Where the test cluster's files lie.

What is built (programs, images) is kept in a cache folder of the checkout. What runs has one folder on the machine, not
one per checkout, since its bridge, its packet filter rules and its kubelet's port are the machine's too.
"""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
# Read at import: tests run without any SAMJOBS_ variable.
CACHE = Path(os.environ.get("SAMJOBS_CLUSTER_CACHE") or ROOT / ".cache" / "cluster").resolve()
STATE = Path("/var/lib/samjobs-cluster")
