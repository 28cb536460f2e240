"""Who may call the API: holders of a token from a file, or of one that Kubernetes made."""

from api.access.caller import Access
from api.access.tokens import TokenFile
from samjobs.errors import InvalidInput
from samjobs.settings import Settings


def access_of(settings: Settings) -> Access:
    """The way of access that the settings ask for.

    Raises:
        InvalidInput: the file of tokens is not named or wrong, or no Kubernetes is known.
    """
    if settings.api_access == "kubernetes":
        # It takes long to import, and an installation without Kubernetes needs nothing of it.
        from api.access.kubernetes import KubernetesAccess

        return KubernetesAccess(settings.api_audience)
    if settings.api_tokens_file is None:
        raise InvalidInput(
            "SAMJOBS_API_TOKENS_FILE is not set: let it name a file of tokens, as `samjobs token NAME --tenant TENANT"
            " --role ROLE --file FILE` writes one; or set SAMJOBS_API_ACCESS to 'kubernetes'"
        )
    return TokenFile(settings.api_tokens_file)
