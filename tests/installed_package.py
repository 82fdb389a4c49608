"""A package outside the tree, as an installer leaves it: a module, and metadata with its entry points."""

from pathlib import Path


def add(folder: Path, monkeypatch, name: str, code: str, entries: dict[str, dict[str, str]]) -> None:
    """Put the module `name` with `code` on the path; `entries`: group -> entry point -> place."""
    about = folder / f"{name}-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    groups = [f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in named.items()) for group, named in entries.items()]
    (about / "entry_points.txt").write_text("\n".join(groups))
    (folder / f"{name}.py").write_text(code)
    monkeypatch.syspath_prepend(folder)
