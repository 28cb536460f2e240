"""A change of what is rendered is seen in review."""

from tests.charts import golden
from tests.charts.helm import Helm


def test_the_least_install_renders_as_it_did(helm: Helm) -> None:
    rendered = golden.text(helm)
    assert rendered == golden.FILE.read_text(), "meant so? then run `python -m tests.charts.golden HELM` and commit it"
