from rewardrate.pretraining.corpus.source import SourceWriter, listed


def test_imports_are_gathered_once_and_come_first():
    source = SourceWriter()
    source.use("pd", "csv", "pd")
    source.sklearn("linear_model", "Ridge")
    source.sklearn("linear_model", "Lasso")
    source.add("a = 1", "b = 2")
    assert source.text() == (
        "import csv\nimport pandas as pd\nfrom sklearn.linear_model import Lasso, Ridge\na = 1\nb = 2\n"
    )


def test_names_are_listed_as_python_writes_them():
    assert listed(("a", "b c")) == '["a", "b c"]'
