"""The API of the release, as a service of the platform uses it: a token by `kubectl create token`, and nothing else."""

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.e2e import photos
from tests.e2e.release import Release
from tests.e2e.site import Site

COUNT = 3
KINDS = "rbac.authorization.k8s.io"
# Of a service that submits jobs and looks at them, in its own namespace.
RULES = [{"apiGroups": ["samjobs.dev"], "resources": ["samjobs"], "verbs": ["get", "list", "create"]}]


@pytest.fixture
def account(release: Release) -> Iterator[str]:
    """A service account that may submit jobs in the release's namespace."""
    name = "submitter"
    role = {"kind": "Role", "name": name}
    release.apply(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}},
        {"apiVersion": f"{KINDS}/v1", "kind": "Role", "metadata": {"name": name}, "rules": RULES},
        {
            "apiVersion": f"{KINDS}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": KINDS, **role},
            "subjects": [{"kind": "ServiceAccount", "name": name}],
        },
    )
    yield name
    release.kubectl("delete", "serviceaccount,role,rolebinding", name, "--ignore-not-found")


@pytest.fixture
def api(release: Release) -> Iterator[httpx.Client]:
    """A client at the API's Service; each request brings its own token."""
    with forwarded(release) as url, httpx.Client(base_url=url, timeout=60) as client:
        yield client


@contextmanager
def forwarded(release: Release) -> Iterator[str]:
    """The address of the API on this machine."""
    command = [str(release.cluster.kubectl_path), f"--kubeconfig={release.cluster.kubeconfig}"]
    command += [f"--namespace={release.namespace}", "port-forward", "service/samjobs-api", ":80"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        try:
            said = process.stdout.readline()
            found = re.search(r"127\.0\.0\.1:(\d+)", said)
            assert found is not None, f"port-forward: {said}{release.told()}"
            yield f"http://127.0.0.1:{found[1]}"
        finally:
            process.terminate()


def bearer(release: Release, account: str, audience: str = "samjobs") -> dict[str, str]:
    token = release.kubectl("create", "token", account, f"--audience={audience}").strip()
    return {"Authorization": f"Bearer {token}"}


def test_a_service_account_submits_follows_and_reads_what_was_found(
    site: Site, api: httpx.Client, account: str, tmp_path: Path
) -> None:
    release, token = site.release, bearer(site.release, account)
    photos.draw(tmp_path / "here" / "photos", COUNT)
    release.put(tmp_path / "here", site.folder)
    wanted = {
        "region": site.name,
        "engine": "opencv",
        "images": {"prefix": f"{site.folder}/photos"},
        "prompts": {"text": ["red"]},
        "output": {"uri": f"{site.folder}/masks"},
    }
    key = {"Idempotency-Key": site.name}
    submitted = api.post("/api/v1/jobs", json={"spec": wanted}, headers=token | key)
    assert submitted.status_code == 201, f"{submitted.text}\n{release.told()}"
    job = submitted.json()
    assert job["tenant"] == release.namespace, "nobody named one: it is the account's own namespace"
    assert api.post("/api/v1/jobs", json={"spec": wanted}, headers=token | key).json()["id"] == job["id"]

    site.pool()
    place = submitted.headers["Location"]
    told = followed(api, f"{place}/progress", token)
    assert told[-1]["state"] == "succeeded", told
    assert told[-1]["images"] == {"total": COUNT, "done": COUNT, "failed": 0, "skipped": 0}

    images = api.get(f"{place}/images", headers=token).json()["items"]
    assert [image["state"] for image in images] == ["done"] * COUNT
    found = api.get(f"{place}/images/0/result", headers=token).json()
    assert found["instances"][0]["area"] == pytest.approx(photos.DISC_AREA, rel=0.02)
    photo = api.get(f"{place}/images/0/photo", headers=token)
    assert (photo.headers["Content-Type"], photo.content[:2]) == ("image/jpeg", b"\xff\xd8")
    story = api.get(f"{place}/history", headers=token).json()["items"]
    assert story[0]["actor"] == f"system:serviceaccount:{release.namespace}:{account}"


def test_who_has_no_role_no_token_or_one_for_another_server_gets_nothing(
    release: Release, api: httpx.Client, account: str
) -> None:
    with release.cluster.namespace() as elsewhere:
        there = Release(release.cluster, elsewhere)
        there.kubectl("create", "serviceaccount", account)
        stranger = bearer(there, account)
        mine = {"tenant": release.namespace}
        refused = {
            "a foreign namespace's account": api.get("/api/v1/jobs", params=mine, headers=stranger),
            "a verb that the role lacks": api.get("/admin/runtime/stats", headers=bearer(release, account)),
            "a token for Kubernetes itself": api.get(
                "/api/v1/jobs", headers=bearer(release, account, "https://kubernetes.default.svc.cluster.local")
            ),
            "no token": api.get("/api/v1/jobs"),
        }
    assert {what: answer.status_code for what, answer in refused.items()} == {
        "a foreign namespace's account": 403,
        "a verb that the role lacks": 403,
        "a token for Kubernetes itself": 401,
        "no token": 401,
    }


def test_the_page_is_there_for_whoever_asks(api: httpx.Client) -> None:
    page = api.get("/")
    assert page.status_code == 200
    assert page.headers["Content-Type"].startswith("text/html")
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]


def followed(api: httpx.Client, path: str, token: dict[str, str]) -> list[dict[str, object]]:
    """The job at each event of its stream, to the end."""
    with api.stream("GET", path, headers=token, timeout=120) as stream:
        assert stream.status_code == 200, stream.read()
        blocks = "".join(stream.iter_text()).split("\n\n")
    events = [dict(line.split(": ", 1) for line in block.splitlines() if ": " in line) for block in blocks]
    assert events[-2]["event"] == "end", blocks
    return [json.loads(event["data"]) for event in events if event.get("event") == "job"]
