"""Files by uri: local, web servers, object stores.

- `client.py`    Storage, the one door
- `paths.py`     what a uri means, which names are images, where outputs go
- `listing.py`   the walk below a prefix
- `hashes.py`    the quick hash and the content hash
- `access.py`    what may be reached, and how patiently
- `fence.py`     at which places a tenant's files may lie
- `guard.py`     which web addresses may be reached
- `backend.py`   what each kind of storage can do: `local.py`, `objects.py`, `web.py`
- `faults.py`    what their exceptions mean
"""

from samjobs.storage.access import Access, access_for, access_of_server
from samjobs.storage.backend import Stamp
from samjobs.storage.client import Storage
from samjobs.storage.hashes import content_hash, quick_hash
from samjobs.storage.listing import Listed
from samjobs.storage.paths import decode_path, encode_path, join, mirrored, redact, to_uri

__all__ = [
    "Access",
    "Listed",
    "Stamp",
    "Storage",
    "access_for",
    "access_of_server",
    "content_hash",
    "decode_path",
    "encode_path",
    "join",
    "mirrored",
    "quick_hash",
    "redact",
    "to_uri",
]
