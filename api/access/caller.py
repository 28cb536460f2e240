"""Who calls, and what may be asked of it: the words in which the routes and the ways of access speak to each other.

A way of access answers two questions: whose token is this (`who`), and may that caller do this in that tenant
(`allows`). Routes ask both for every request, and `reach` where a request is about a list. Nothing is decided by what
a caller says of itself.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from samjobs.errors import SamjobsError


class Verb(StrEnum):
    """What a request wants to do with a tenant's jobs."""

    GET = "get"
    LIST = "list"
    CREATE = "create"
    UPDATE = "update"  # cancel, suspend, resume
    RETRY = "retry"
    PURGE = "purge"
    ADMIN = "admin"  # workers, pools, settings, counts: what belongs to no tenant


class Unauthenticated(SamjobsError):
    """The request has no token, or one that nobody may come with. The message does not tell which tokens there are."""


class Forbidden(SamjobsError):
    """The caller is known, and has no right to this. The message names the right and the tenant that was asked for."""


@dataclass(frozen=True)
class Caller:
    """Somebody whose token was found good.

    Attributes:
        name: for the events of what it does: `token:ci`, or the user's name in Kubernetes.
    """

    name: str

    def tenants(self) -> frozenset[str] | None:
        """Whom its requests are about where they name no tenant; None: it belongs to no tenant.

        That says where it is at home, not what it may do: only `Access.allows` tells that, for these tenants, too.
        """
        return None


class Access(Protocol):
    """One way to know callers and their rights."""

    def who(self, token: str) -> Caller:
        """The caller with this token.

        Raises:
            Unauthenticated: the token is none of ours, or no longer.
            KubernetesUnavailable: nobody can tell now; the caller may try again.
        """
        ...

    def allows(self, caller: Caller, verb: Verb, tenant: str | None) -> bool:
        """Whether a caller may do this in a tenant; None: in all tenants at once.

        Raises:
            KubernetesUnavailable: nobody can tell now; nothing is allowed meanwhile.
        """
        ...


def require(access: Access, caller: Caller, verb: Verb, tenant: str | None) -> None:
    """Let pass who has this right.

    Raises:
        Forbidden: the caller has not.
        KubernetesUnavailable: nobody can tell now.
    """
    if not access.allows(caller, verb, tenant):
        where = "over all tenants" if tenant is None else f"in tenant {tenant!r}"
        raise Forbidden(f"{caller.name} has no right to {verb.value} {where}: whoever runs samjobs here grants rights")


def reach(access: Access, caller: Caller, verb: Verb, tenant: str | None) -> frozenset[str] | None:
    """The tenants that the answer may be about; None: all of them.

    Args:
        tenant: the one that the request names; None: it names none, and means whatever the caller may see.

    Raises:
        Forbidden: the caller has no right in any tenant that could be meant.
        KubernetesUnavailable: nobody can tell now.
    """
    if tenant is not None:
        require(access, caller, verb, tenant)
        return frozenset({tenant})
    if access.allows(caller, verb, None):
        return None
    mine = frozenset(one for one in caller.tenants() or () if access.allows(caller, verb, one))
    if not mine:
        raise Forbidden(f"{caller.name} has no right to {verb.value} over all tenants: name one, by ?tenant=…")
    return mine
