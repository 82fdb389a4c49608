"""Pictures of a run's page for the docs, taken in Chromium: python docs/shots.py runs/demo [--out docs/figures].

Desktop and phone, light and dark, small files. The run is reported again first.
"""

from __future__ import annotations

import argparse
import io
import shutil
from pathlib import Path

from rewardrate.reports import page

# name -> (section shown at the top, width, height, colour scheme)
SHOTS = {
    "report-result": ("#main", 1180, 820, "light"),
    "report-attempts": ("#attempts", 1180, 640, "dark"),
    "report-lineage": ("#lineage", 1180, 980, "light"),
    "report-phone": ("#budget", 390, 780, "dark"),
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("run", type=Path)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "figures")
    args = parser.parse_args()
    from playwright.sync_api import sync_playwright

    path = page.write(args.run).resolve()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        for name, (place, width, height, scheme) in SHOTS.items():
            size = {"width": width, "height": height}
            tab = browser.new_context(viewport=size, color_scheme=scheme, reduced_motion="reduce").new_page()
            tab.goto(path.as_uri())
            tab.wait_for_selector("html[data-ready=yes]")
            tab.evaluate("place => document.querySelector(place).scrollIntoView()", place)
            if place == "#lineage":  # an attempt that changed something and gained by it, if there is one
                bests = tab.locator("#tree g.node:not(.failed)[aria-level='3'] circle")
                (bests if bests.count() else tab.locator("#tree g.node circle")).first.click()
            if place == "#main":
                tab.evaluate("() => scrollTo(0, 0)")
            small(tab.screenshot(), args.out / f"{name}.png")
            tab.context.close()
        browser.close()


def small(data: bytes, path: Path) -> None:
    """A picture of few colours in few bytes."""
    from PIL import Image

    picture = Image.open(io.BytesIO(data)).convert("RGB").quantize(128, dither=Image.Dither.NONE)
    picture.save(path, optimize=True)
    print(f"{path}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
