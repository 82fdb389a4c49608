"""Run the notebooks in a kernel of their own and keep what they print: python docs/make_notebooks.py [--folder .].

`--folder` is where they run: read-a-run.ipynb finds the runs of `make demo` below it. `--out` writes the notebooks
somewhere else than in place, as the tests do.
"""

from __future__ import annotations

import argparse
from pathlib import Path

NOTEBOOKS = Path(__file__).parent / "notebooks"


def execute(path: Path, folder: Path, out: Path) -> None:
    """Run every cell; the first that fails is an error. What a machine writes of itself is left out."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    place = {"metadata": {"path": str(folder)}}
    NotebookClient(notebook, kernel_name="python3", timeout=600, startup_timeout=300, resources=place).execute()
    for cell in notebook.cells:
        cell.metadata = {}
        for output in cell.get("outputs", []):
            if "data" in output:  # a picture without its name, a table as text
                output.metadata = {}
                output.data.pop("text/plain" if "image/png" in output.data else "text/html", None)
    notebook.metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    nbformat.write(notebook, out / path.name)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, default=Path.cwd())
    parser.add_argument("--out", type=Path, default=NOTEBOOKS)
    args = parser.parse_args()
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        execute(path, args.folder, args.out)
        print(f"{path.name}: every cell ran")


if __name__ == "__main__":
    main()
