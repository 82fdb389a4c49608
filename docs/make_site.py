"""Build the documentation as a site that works from disk, and fail on any broken link: make site.

    python docs/make_site.py [--out site] [--keep build/site]

The pages are those of the repository. They are copied into a folder of their own, where links to code lead to a page
that shows it, notebooks become pages, and the reference (every recipe key, the Python API) is written from the code.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import reference

DOCS = Path(__file__).parent
ROOT = DOCS.parent
CODE = {".py": "python", ".toml": "toml", ".yaml": "yaml", ".sql": "sql", ".diff": "diff", ".cff": "yaml", "": "text"}
LINK = re.compile(r"(\]\()([^)\s]+)(\))")

NAV: list[tuple[str, str | list[str]]] = [
    ("Start", "README.md"),
    (
        "First hour",
        [
            "docs/tutorial/README.md",
            "docs/tutorial/1-your-own-loop.md",
            "docs/tutorial/2-your-environment.md",
            "docs/notebooks/price-your-environment.ipynb",
            "docs/tutorial/3-the-agent.md",
            "docs/notebooks/read-a-run.ipynb",
            "docs/tutorial/4-a-larger-model.md",
            "docs/tutorial/5-a-cluster.md",
        ],
    ),
    (
        "How to",
        [
            "docs/timed.md",
            "docs/trl.md",
            "docs/verl.md",
            "docs/add-a-task.md",
            "docs/add-an-environment.md",
            "docs/mle-bench.md",
            "docs/sql-tuning.md",
            "docs/plan.md",
            "docs/compare.md",
            "docs/reading-a-report.md",
            "docs/loggers.md",
            "docs/engines.md",
            "docs/scaling.md",
            "docs/ray.md",
            "docs/vllm.md",
            "docs/faq.md",
            "docs/troubleshooting.md",
        ],
    ),
    (
        "Concepts",
        [
            "docs/rates.md",
            "docs/training.md",
            "docs/policies.md",
            "docs/sandbox.md",
            "docs/tasks.md",
            "docs/tiny.md",
            "docs/theory.md",
            "docs/bandits.md",
            "docs/speedrun.md",
            "docs/speedrun-policy.md",
            "docs/architecture.md",
        ],
    ),
    ("Reference", ["docs/cli.md", "docs/run-folder.md", "docs/glossary.md", "docs/paper-map.md", "CHANGELOG.md"]),
    ("Results", ["results/README.md", "results/log.md"]),
    ("Contribute", "CONTRIBUTING.md"),
]


def place(path: Path) -> Path:
    """Where a file of the repository stands in the site's sources."""
    inside = path.resolve().relative_to(ROOT)
    if inside.parts[0] == "docs":
        inside = Path(*inside.parts[1:])
    if inside.name == "README.md":
        return inside.with_name("index.md")
    if inside.suffix == ".ipynb":
        return inside.with_suffix(".md")
    return inside.with_name(f"{inside.name}.md") if inside.suffix in CODE else inside


def stage(folder: Path) -> None:
    """Write the site's sources: every page that the navigation or another page leads to."""
    todo = [ROOT / page for _, pages in NAV for page in ([pages] if isinstance(pages, str) else pages)]
    todo += sorted((ROOT / "results").glob("*/README.md"))
    seen: set[Path] = set()
    while todo:
        path = todo.pop().resolve()
        if path in seen:
            continue
        seen.add(path)
        target = folder / place(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix not in (".md", ".ipynb", *CODE):
            shutil.copyfile(path, target)
            continue
        text, linked = moved_links(path, written(path, target))
        target.write_text(text)
        todo += linked
    shutil.copytree(DOCS / "theme", folder / "theme")
    reference.write(folder / "reference")


def written(path: Path, target: Path) -> str:
    """A file of the repository as Markdown."""
    text = path.read_text()
    if path.suffix == ".ipynb":
        return from_notebook(json.loads(text), target)
    if path.suffix in CODE:
        return f"# {path.relative_to(ROOT)}\n\n````{CODE[path.suffix]}\n{text.rstrip()}\n````\n"
    return text


def moved_links(path: Path, text: str) -> tuple[str, list[Path]]:
    """The page with its links as they must be in the site, and the files that they lead to."""
    found: list[Path] = []
    here = place(path).parent

    def move(match: re.Match[str]) -> str:
        name, _, anchor = match[2].partition("#")
        if not name or re.match(r"[a-z]+:", name):
            return match[0]
        there = (path.parent / name).resolve()
        if not there.is_file():
            raise SystemExit(f"{path.relative_to(ROOT)}: {match[2]} leads nowhere")
        found.append(there)
        return f"{match[1]}{os.path.relpath(place(there), here)}{'#' + anchor if anchor else ''}{match[3]}"

    return outside_fences(text, lambda part: LINK.sub(move, part)), found


def outside_fences(text: str, change: Callable[[str], str]) -> str:
    """The text with its prose changed and its blocks of code as they are."""
    parts = re.split(r"(^(`{3,})[^\n]*\n.*?^\2\n?)", text, flags=re.DOTALL | re.MULTILINE)
    return "".join(part if at % 3 == 1 else change(part) for at, part in enumerate(parts) if at % 3 != 2)


def from_notebook(notebook: dict[str, object], target: Path) -> str:
    """A notebook as a page: its words, its code, what it printed and drew."""
    parts = []
    for number, cell in enumerate(notebook["cells"]):
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            data = output.get("data", {})
            if "image/png" in data:
                picture = target.with_name(f"{target.stem}-{number}.png")
                picture.write_bytes(base64.b64decode("".join(data["image/png"])))
                parts.append(f'<img alt="what the cell above draws" src="{picture.name}">')
            elif text := "".join(output.get("text", data.get("text/plain", ""))):
                parts.append(f"```text\n{text.rstrip()}\n```")
    return "\n\n".join(parts) + "\n"


def navigation() -> list[dict[str, object]]:
    """What stands at the side of every page."""
    entries: list[dict[str, object]] = []
    for title, pages in NAV:
        if isinstance(pages, str):
            entries.append({title: str(place(ROOT / pages))})
            continue
        below: list[object] = [str(place(ROOT / page)) for page in pages]
        if title == "Reference":
            below[1:1] = [{name: f"reference/{page}"} for name, page in reference.navigation()]
        if title == "Results":
            found = sorted((ROOT / "results").glob("*/README.md"), reverse=True)
            below += [{path.parent.name[len("2026-11-16-") :].replace("-", " "): str(place(path))} for path in found]
        entries.append({title: below})
    return entries


def settings(nav: list[dict[str, object]]) -> dict[str, object]:
    """The generator's settings. Nothing is asked of another server: no fonts, no scripts, search from disk."""
    schemes = [("light", "default", "weather-night"), ("dark", "slate", "weather-sunny")]
    return {
        "site_name": "rewardrate",
        "site_description": "Reward-rate reinforcement learning: maximise long-run reward per second.",
        "docs_dir": "pages",
        "site_dir": "html",
        "use_directory_urls": False,
        "extra_css": ["theme/style.css"],
        "nav": nav,
        "theme": {
            "name": "material",
            "font": False,
            "icon": {"logo": "material/timer-outline"},
            "features": [
                "navigation.tabs",
                "navigation.indexes",
                "navigation.footer",
                "navigation.top",
                "content.code.copy",
            ],
            "palette": [
                {
                    "media": f"(prefers-color-scheme: {name})",
                    "scheme": scheme,
                    "primary": "teal",
                    "accent": "teal",
                    "toggle": {"icon": f"material/{icon}", "name": "light or dark"},
                }
                for name, scheme, icon in schemes
            ],
        },
        "plugins": ["search", "offline"],
        "validation": {
            "links": {"anchors": "warn", "not_found": "warn"},
            "invalid_links": True,
            "invalid_link_anchors": True,
        },
        "markdown_extensions": [
            "tables",
            "attr_list",
            {"toc": {"permalink": True, "slugify": "SLUG"}},
            "pymdownx.superfences",
            "pymdownx.highlight",
            "pymdownx.inlinehilite",
        ],
    }


def own_worker(html: Path) -> None:
    """Let the search on disk use our script, where the generator would ask another server for one."""
    for page in html.rglob("*.html"):
        script = os.path.relpath(html / "theme" / "worker.js", page.parent)
        page.write_text(re.sub(r"https://[^\s\"]+/iframe-worker/shim", script, page.read_text()))


def generate(keep: Path, out: Path, nav: list[dict[str, object]]) -> int:
    """The site of the pages in `keep`/pages; the generator's exit code, not 0 for any warning."""
    text = json.dumps(settings(nav), indent=1)
    config = keep / "mkdocs.yml"
    config.write_text(
        text.replace('"SLUG"', '!!python/object/apply:pymdownx.slugs.slugify {"kwds": {"case": "lower"}}')
    )
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean", "--config-file", str(config)]
    code = subprocess.run(command, check=False).returncode
    if code == 0:
        (keep / "html" / "404.html").unlink()  # for servers: its links begin at their root
        own_worker(keep / "html")
        shutil.rmtree(out, ignore_errors=True)
        shutil.move(keep / "html", out)
    return code


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=ROOT / "site")
    parser.add_argument("--keep", type=Path, default=ROOT / "build" / "site")
    args = parser.parse_args()
    shutil.rmtree(args.keep, ignore_errors=True)
    stage(args.keep / "pages")
    code = generate(args.keep, args.out, navigation())
    print(f"{args.out / 'index.html'}" if code == 0 else "the site was not built")
    sys.exit(code)


if __name__ == "__main__":
    main()
