"""Which Kubernetes is this process's? That of its pod, or of KUBECONFIG.

Needs the official client, which the controller and the API are installed with.
"""

import os
from typing import Any

from kubernetes import client, config

from samjobs.errors import InvalidInput, describe


def configuration() -> Any:
    """For the official client: the server's address, with tokens that are renewed; it tries nothing twice by itself.

    Raises:
        InvalidInput: neither a service account nor a KUBECONFIG is there, or it cannot be read.
    """
    found = client.Configuration()
    try:
        if os.environ.get("KUBERNETES_SERVICE_HOST") and not os.environ.get("KUBECONFIG"):
            config.load_incluster_config(client_configuration=found)
        else:
            # By name: the library would take what KUBECONFIG was when it was imported.
            config.load_kube_config(config_file=os.environ.get("KUBECONFIG"), client_configuration=found)
    except (config.ConfigException, OSError) as error:
        raise InvalidInput(
            f"no Kubernetes is known: {describe(error)}: run in a pod with a service account's token, or let KUBECONFIG"
            " name a file"
        ) from None
    found.retries = False
    return found
