"""An API server alone: what is real there, and what is not."""

from tests.cluster.client import Client

_POD = """
apiVersion: v1
kind: Pod
metadata: {name: one}
spec:
  containers:
    - {name: one, image: none, securityContext: {privileged: true}}
"""


def test_it_stores_objects_and_notes_who_asked_for_what(api_server: Client) -> None:
    with api_server.namespace(wait=False) as namespace:
        api_server.kubectl("create", "configmap", "one", f"--namespace={namespace}", "--from-literal=a=b")
        assert api_server.get("configmap", "one", f"--namespace={namespace}")["data"] == {"a": "b"}
        (request,) = api_server.requests(verb="create", resource="configmaps", namespace=namespace)
    assert request["user"]["username"] == "admin"
    assert request["level"] == "Metadata"


def test_a_namespace_admits_only_pods_of_the_restricted_level(api_server: Client) -> None:
    with api_server.namespace(wait=False) as namespace:
        said = api_server.kubectl("apply", f"--namespace={namespace}", "--filename=-", input=_POD, check=False)
    assert 'violates PodSecurity "restricted:latest"' in said
