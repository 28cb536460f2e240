"""${message}"""

import sqlalchemy as sa
from alembic import op

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
PHASE = "pre"  # pre: the old code works on it; post: only once no old code runs


def upgrade() -> None:
    ${upgrades if upgrades else "raise NotImplementedError"}
