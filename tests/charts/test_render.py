"""What the chart renders, in the fields that matter."""

from typing import Any

import pytest
import yaml

from controller.kube.installation import Installation, read
from tests.charts.helm import NAMESPACE, Helm, Rendered, env_of
from tests.charts.sets import EXTERNAL, SETS, everything

LABELS = {"app.kubernetes.io/name": "samjobs", "app.kubernetes.io/instance": "samjobs"}


def controller(rendered: Rendered) -> dict[str, Any]:
    pod: dict[str, Any] = rendered.one("Deployment", "samjobs-controller")["spec"]["template"]["spec"]
    return pod


@pytest.fixture
def installation(helm: Helm, tmp_path: Any) -> Any:
    """Reads the file that the controller would be given, as the controller does."""

    def of(values: Any) -> Installation:
        path = tmp_path / "kubernetes.yaml"
        path.write_text(helm.template(values).one("ConfigMap", "samjobs-kubernetes")["data"]["kubernetes.yaml"])
        return read(path)

    return of


@pytest.mark.parametrize("name", SETS)
def test_every_set_renders_a_file_that_the_controller_takes(installation: Any, name: str) -> None:
    assert installation(SETS[name]).namespace == NAMESPACE


@pytest.mark.parametrize("name", SETS)
def test_every_object_says_whose_it_is(helm: Helm, name: str) -> None:
    without = [
        f"{one['kind']} {one['metadata']['name']}"
        for one in helm.template(SETS[name]).objects
        if one["kind"] != "CustomResourceDefinition" and not one["metadata"]["name"].endswith("-extra")
        if not one["metadata"].get("labels", {}).items() >= LABELS.items()
    ]
    assert without == []


@pytest.mark.parametrize("name", SETS)
def test_every_pod_is_a_restricted_one(helm: Helm, name: str) -> None:
    for owner, pod in helm.template(SETS[name]).pods():
        assert pod["securityContext"]["runAsNonRoot"], owner
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, owner
        for container in (*pod.get("initContainers", ()), *pod["containers"]):
            context = container["securityContext"]
            assert context["readOnlyRootFilesystem"], owner
            assert not context["allowPrivilegeEscalation"], owner
            assert context["capabilities"] == {"drop": ["ALL"]}, owner
            assert container["resources"]["limits"]["memory"], owner


@pytest.mark.parametrize("name", SETS)
def test_no_name_is_set_twice_in_an_environment(helm: Helm, name: str) -> None:
    for owner, pod in helm.template(SETS[name]).pods():
        for container in (*pod.get("initContainers", ()), *pod["containers"]):
            given = [one["name"] for one in container.get("env", ())]
            assert len(given) == len(set(given)), f"{owner}: {given}"


def test_one_controller_that_leaves_a_dead_node_soon(helm: Helm) -> None:
    deployment = helm.template(EXTERNAL).one("Deployment", "samjobs-controller")
    assert deployment["spec"]["replicas"] == 1
    assert deployment["spec"]["strategy"] == {"type": "Recreate"}
    pod = deployment["spec"]["template"]["spec"]
    assert {one["key"]: one["tolerationSeconds"] for one in pod["tolerations"]} == {
        "node.kubernetes.io/not-ready": 30,
        "node.kubernetes.io/unreachable": 30,
    }
    migrate, process = pod["initContainers"][0], pod["containers"][0]
    assert migrate["command"] == ["samjobs", "migrate"]
    assert process["livenessProbe"]["httpGet"] == {"path": "/livez", "port": "health"}
    assert process["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "health"}
    assert process["ports"] == [{"name": "health", "containerPort": 8080}]


def test_selectors_never_change_with_the_version(helm: Helm) -> None:
    for values in (EXTERNAL, everything()):
        selector = helm.template(values).one("Deployment", "samjobs-controller")["spec"]["selector"]["matchLabels"]
        assert selector == {**LABELS, "app.kubernetes.io/component": "controller"}


def test_addresses_come_from_the_secret_for_controller_migration_and_workers_alike(
    helm: Helm, installation: Any
) -> None:
    values = {"database": {"existingSecret": "pg", "existingSecretKey": "dsn"}, "redis": {"url": "redis://:p@r/0"}}
    pod = controller(helm.template(values))
    wanted = {
        "SAMJOBS_DATABASE_URL": {"secretKeyRef": {"name": "pg", "key": "dsn"}},
        "SAMJOBS_REDIS_URL": {"secretKeyRef": {"name": "samjobs-addresses", "key": "redis-url"}},
        "SAMJOBS_PROFILE": "prod",
    }
    workers = env_of({"env": installation(values).worker.env})
    for env in (env_of(pod["initContainers"][0]), env_of(pod["containers"][0]), workers):
        assert env.items() >= wanted.items()
    assert env_of(pod["containers"][0])["SAMJOBS_KUBERNETES_CONFIG"] == "/etc/samjobs/kubernetes.yaml"


def test_a_change_of_settings_or_addresses_starts_the_controller_anew(helm: Helm) -> None:
    def annotations(values: dict[str, Any]) -> dict[str, str]:
        deployment = helm.template({**EXTERNAL, **values}).one("Deployment", "samjobs-controller")
        found: dict[str, str] = deployment["spec"]["template"]["metadata"]["annotations"]
        return found

    plain = annotations({})
    assert annotations({"commonLabels": {}}) == plain
    assert annotations({"pools": [{"name": "a"}]}) != plain
    urls = ({"redis": {"url": f"redis://:{word}@r/0"}} for word in ("a", "b"))
    assert annotations(next(urls)) != annotations(next(urls))


def test_settings_become_text_and_large_numbers_stay_whole(helm: Helm) -> None:
    env = env_of(controller(helm.template(everything()))["containers"][0])
    assert env["SAMJOBS_MEMORY_BYTES"] == "2147483648"
    assert env["SAMJOBS_DATABASE_POOLED"] == "true"


def test_images_are_named_by_registry_tag_and_digest(helm: Helm, installation: Any) -> None:
    def image(**values: Any) -> str:
        name: str = controller(helm.template({**EXTERNAL, **values}))["containers"][0]["image"]
        return name

    assert image() == "samjobs-controller:0.1.0"
    assert image(image={"registry": "r.example.com/a", "tag": "2"}) == "r.example.com/a/samjobs-controller:2"
    digest = "sha256:" + "1" * 64
    assert image(image={"tag": "2", "digest": digest}) == f"samjobs-controller@{digest}"
    mirror = {"global": {"imageRegistry": "mirror.example.com"}}
    assert image(image={"registry": "r.example.com"}, **mirror) == "mirror.example.com/samjobs-controller:0.1.0"
    assert installation({**EXTERNAL, **mirror}).worker.image == "mirror.example.com/samjobs-worker:0.1.0"


def test_the_whole_cluster_is_watched_by_a_cluster_role(helm: Helm, installation: Any) -> None:
    rendered = helm.template(EXTERNAL)
    assert installation(EXTERNAL).watch_namespaces == ()
    assert rendered.of("Role") == []
    binding = rendered.one("ClusterRoleBinding", "samjobs-system-samjobs")
    assert binding["roleRef"]["name"] == "samjobs-system-samjobs"
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", "name": "samjobs-controller", "namespace": NAMESPACE},
    ]


def test_named_namespaces_are_watched_by_a_role_in_each(helm: Helm, installation: Any) -> None:
    values = {
        **EXTERNAL,
        "watchNamespaces": ["team-a", "team-b"],
        "rbac": {"aggregateClusterRoles": False},
        "api": {"access": "tokens", "tokensSecret": "api-tokens"},  # the cluster's tokens are known cluster-wide alone
    }
    rendered = helm.template(values)
    watched = (NAMESPACE, "team-a", "team-b")
    assert installation(values).watch_namespaces == watched
    for kind in ("Role", "RoleBinding"):
        assert tuple(one["metadata"]["namespace"] for one in rendered.of(kind)) == watched
    assert rendered.of("ClusterRole") == rendered.of("ClusterRoleBinding") == []


def test_no_role_reads_secrets_or_takes_everything(helm: Helm) -> None:
    for values in (EXTERNAL, everything()):
        rendered = helm.template(values)
        for role in (*rendered.of("Role"), *rendered.of("ClusterRole")):
            for rule in role["rules"]:
                assert "*" not in (*rule["verbs"], *rule["resources"], *rule["apiGroups"])
                assert "secrets" not in rule["resources"]


def test_users_may_make_jobs_and_admins_pools(helm: Helm) -> None:
    def may(word: str) -> set[tuple[str, str]]:
        label = f"rbac.authorization.k8s.io/aggregate-to-{word}"
        roles = [one for one in helm.template(EXTERNAL).of("ClusterRole") if label in one["metadata"]["labels"]]
        rules = [rule for role in roles for rule in role["rules"]]
        return {(resource, verb) for rule in rules for resource in rule["resources"] for verb in rule["verbs"]}

    assert ("samjobs", "list") in may("view")
    assert {verb for _, verb in may("view")} == {"get", "list", "watch"}
    assert ("samjobs", "create") in may("edit")
    assert ("samworkerpools", "create") not in may("edit")
    assert ("samworkerpools", "create") in may("admin")
    assert ("samworkerpools/scale", "patch") in may("admin")
    # What the API asks for, and kubectl does not know.
    assert ("samjobs/queue", "get") in may("view")
    assert ("samjobs/dead", "update") in may("edit") - may("view")
    assert ("samjobs/dead", "delete") in may("admin") - may("edit")


def test_crds_come_with_the_release_and_stay(helm: Helm) -> None:
    crds = helm.template(EXTERNAL).of("CustomResourceDefinition")
    assert {one["metadata"]["name"] for one in crds} == {"samjobs.samjobs.dev", "samworkerpools.samjobs.dev"}
    assert {one["metadata"]["annotations"]["helm.sh/resource-policy"] for one in crds} == {"keep"}
    assert helm.template({**EXTERNAL, "crds": {"enabled": False}}).of("CustomResourceDefinition") == []
    for one in helm.template({**EXTERNAL, "crds": {"keep": False}}).of("CustomResourceDefinition"):
        assert "helm.sh/resource-policy" not in one["metadata"]["annotations"]


def test_no_hook_but_the_test(helm: Helm) -> None:
    hooked = [
        (one["kind"], one["metadata"]["annotations"]["helm.sh/hook"])
        for one in helm.template(everything()).objects
        if "helm.sh/hook" in one["metadata"].get("annotations", {})
    ]
    assert hooked == [("Pod", "test")]


def test_a_trial_brings_its_servers_a_volume_and_a_pool_without_a_gpu(helm: Helm, installation: Any) -> None:
    values = {"embedded": {"enabled": True}}
    rendered = helm.template(values)
    assert {one["metadata"]["name"] for one in rendered.of("StatefulSet")} == {"samjobs-postgres", "samjobs-redis"}
    env = env_of(controller(rendered)["containers"][0])
    assert env["SAMJOBS_DATABASE_URL"] == {"secretKeyRef": {"name": "samjobs-postgres", "key": "url"}}
    (pool,) = installation(values).default_pools
    assert (pool.name, pool.spec.engine) == ("default", "opencv")
    assert "nvidia.com/gpu" not in pool.spec.resources.limits
    assert [one.claim for one in pool.spec.volumes] == ["samjobs-data"]
    assert {"name": "data", "mountPath": "/data"} in controller(rendered)["containers"][0]["volumeMounts"]


def test_a_trial_keeps_the_password_of_the_volume_that_it_keeps(helm: Helm) -> None:
    secret = helm.template({"embedded": {"enabled": True}}).one("Secret", "samjobs-postgres")
    assert secret["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    password = secret["stringData"]["password"]
    assert secret["stringData"]["url"] == (
        f"postgresql://samjobs:{password}@samjobs-postgres.{NAMESPACE}.svc:5432/samjobs"
    )
    assert len(password) == 32


def test_redis_of_a_trial_drops_nothing_and_no_argument_shows_its_password(helm: Helm) -> None:
    rendered = helm.template({"embedded": {"enabled": True}})
    secret = rendered.one("Secret", "samjobs-redis")["stringData"]
    assert "maxmemory-policy noeviction" in secret["redis.conf"]
    pod = rendered.one("StatefulSet", "samjobs-redis")["spec"]["template"]["spec"]
    assert secret["password"] not in yaml.safe_dump(pod)


def test_what_is_given_is_not_embedded(helm: Helm) -> None:
    rendered = helm.template(SETS["half embedded"])
    assert [one["metadata"]["name"] for one in rendered.of("StatefulSet")] == ["samjobs-redis"]


def test_webhooks_are_the_controllers_alone(helm: Helm, installation: Any) -> None:
    pod = controller(helm.template(everything()))
    env = env_of(pod["containers"][0])
    assert env["SAMJOBS_WEBHOOK_SECRET"] == {"secretKeyRef": {"name": "webhook", "key": "secret"}}
    assert env["SAMJOBS_WEBHOOK_SECRETS_DIR"] == "/etc/samjobs/webhooks"
    workers = env_of({"env": installation(everything()).worker.env})
    assert not [name for name in workers if "WEBHOOK" in name]


def test_credentials_of_the_storage_and_authorities_reach_the_workers(installation: Any) -> None:
    worker = installation(everything()).worker
    assert worker.env_from == ({"secretRef": {"name": "bucket"}},)
    env = env_of({"env": worker.env})
    assert env["PGSSLROOTCERT"] == "/etc/samjobs/database-ca/ca.crt"
    assert env["HF_HUB_OFFLINE"] == "1"
    assert {one["name"] for one in worker.volumes} == {one["name"] for one in worker.volume_mounts}
    assert worker.image_pull_secrets == ({"name": "regcred"},)


def test_workers_reach_the_world_but_not_the_clouds_credentials(helm: Helm) -> None:
    policy = helm.template(SETS["embedded with policies"]).one("NetworkPolicy", "samjobs-workers")["spec"]
    blocks = [to["ipBlock"] for rule in policy["egress"] for to in rule.get("to", ()) if "ipBlock" in to]
    assert blocks[0] == {"cidr": "0.0.0.0/0", "except": ["169.254.0.0/16"]}
    assert blocks[1]["cidr"] == "::/0"
    ports = {port["port"] for rule in policy["egress"] for port in rule.get("ports", ())}
    assert ports == {53, "postgres", "redis"}


def test_a_budget_is_asked_for(helm: Helm) -> None:
    assert helm.template(EXTERNAL).of("PodDisruptionBudget") == []
    budgets = helm.template(everything()).of("PodDisruptionBudget")
    assert [(one["metadata"]["name"], one["metadata"]["namespace"]) for one in budgets] == [
        ("samjobs-controller", NAMESPACE),
        ("samjobs-api", NAMESPACE),
        ("samjobs-workers", NAMESPACE),
        ("samjobs-workers", "team-a"),
        ("samjobs-workers", "team-b"),
    ]
    assert budgets[0]["spec"]["maxUnavailable"] == 1
    assert budgets[1]["spec"]["minAvailable"] == 1
    assert budgets[2]["spec"]["minAvailable"] == "50%"


def test_objects_of_the_user_are_templates(helm: Helm) -> None:
    helm.template(everything()).one("ConfigMap", "samjobs-extra")


def test_two_releases_in_two_namespaces_share_no_cluster_wide_name(helm: Helm) -> None:
    one = helm.template(EXTERNAL)
    other = helm.template(EXTERNAL, options=("--namespace", "elsewhere"))
    wide = ("ClusterRole", "ClusterRoleBinding")
    names = [{o["metadata"]["name"] for kind in wide for o in rendered.of(kind)} for rendered in (one, other)]
    assert names[0].isdisjoint(names[1])


def test_a_long_release_name_makes_names_that_kubernetes_takes(helm: Helm) -> None:
    for one in helm.template({"embedded": {"enabled": True}}, release="r" * 53).objects:
        assert len(one["metadata"]["name"]) <= 63


def test_another_address_in_the_values_rolls_the_workers(installation: Any) -> None:
    def marked(url: str) -> Any:
        values = {"database": {"url": url}, "redis": {"url": "redis://redis"}}
        return installation(values).worker.pod_annotations["samjobs.dev/addresses"]

    assert (
        marked("postgresql://one/samjobs") == marked("postgresql://one/samjobs") != marked("postgresql://two/samjobs")
    )
    assert installation(EXTERNAL).worker.pod_annotations == {}, "of a Secret that exists nothing is known"
