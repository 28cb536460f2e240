"""Nothing in the code turns data into code: no pickle, no eval, no YAML with tags, no shell, no weights that run.

Read from the syntax of every module of the project.
"""

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("samjobs", "controller", "worker", "api", "tools")
MODULES = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]

FORBIDDEN_IMPORTS = {
    *("pickle", "_pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "jsonpickle"),
    *("code", "codeop", "imp", "telnetlib", "xmlrpc"),
    *("xml.etree", "xml.sax", "xml.dom", "lxml"),  # entities that grow, or name files
}
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__", "os.system", "os.popen", "input"}
LOADERS = {"yaml.load", "yaml.load_all", "yaml.unsafe_load", "yaml.full_load", "yaml.unsafe_load_all"}
PICKLING = {"numpy.load", "np.load", "torch.load", "torch.hub.load", "pandas.read_pickle"}


def faults(source: str) -> Iterator[str]:
    """What of it may turn data into code."""
    for node in ast.walk(ast.parse(source)):
        found = None
        if isinstance(node, ast.Import | ast.ImportFrom):
            found = _of_import(node)
        elif isinstance(node, ast.Call):
            found = _of_call(node)
        if found is not None:
            yield f"line {node.lineno}: {found}"


def _of_import(node: ast.Import | ast.ImportFrom) -> str | None:
    names = [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        names = [node.module or "", *(f"{node.module}.{name}" for name in names)]
    found = [name for name in names if any(name == bad or name.startswith(f"{bad}.") for bad in FORBIDDEN_IMPORTS)]
    return f"imports {found[0]}" if found and not (isinstance(node, ast.ImportFrom) and node.level) else None


def _of_call(node: ast.Call) -> str | None:
    name = ast.unparse(node.func)
    given = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
    if name in FORBIDDEN_CALLS or name in LOADERS:
        return f"calls {name}"
    if name == "torch.load" and given.get("weights_only") != "True":
        return "calls torch.load without weights_only=True"
    if name in PICKLING - {"torch.load"} and given.get("allow_pickle", "False") != "False":
        return f"calls {name} with pickle"
    if given.get("shell", "False") != "False":
        return f"calls {name} with a shell"
    if given.get("trust_remote_code", "False") != "False":
        return f"calls {name} with code of the hub"
    if given.get("weights_only", "True") != "True":
        return f"calls {name} with weights that may run"
    if given.get("verify", "True") == "False" or "_create_unverified_context" in name:
        return f"calls {name} without looking at the certificate"
    return None


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_data_becomes_code(path: Path) -> None:
    assert list(faults(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from pickle import loads",
        "import xml.etree.ElementTree as ET",
        "from xml.etree import ElementTree",
        "eval(text)",
        "yaml.load(text, Loader=yaml.Loader)",
        "torch.load(path)",
        "torch.load(path, weights_only=False)",
        "np.load(path, allow_pickle=True)",
        "subprocess.run(line, shell=True)",
        "AutoModel.from_pretrained(name, trust_remote_code=True)",
        "requests.get(url, verify=False)",
    ],
)
def test_what_would_be_a_fault_is_found(source: str) -> None:
    assert list(faults(source))


def test_there_is_code_to_look_at() -> None:
    assert len(MODULES) > 100
    assert not list(faults("torch.load(path, weights_only=True); yaml.safe_load(text); model.eval(); re.compile(text)"))


def test_torch_is_new_enough_for_weights_only_to_keep_its_word() -> None:
    """Before 2.6 a checkpoint could run code in spite of it (CVE-2025-32434)."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for extra in ("sam3", "meta"):
        (wanted,) = [one for one in project["optional-dependencies"][extra] if one.startswith("torch>")]
        least = wanted.partition(">=")[2].partition(",")[0]
        assert tuple(map(int, least.split("."))) >= (2, 6)


def test_what_is_installed_is_what_was_looked_at() -> None:
    """Every line of the lock file is of one version, with hashes."""
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    assert len(lines) > 100
    assert [line[:80] for line in lines if "==" not in line or "--hash=sha256:" not in line] == []
