"""Pictures for the docs, taken in Chromium: python docs/shots.py runs/demo [--site site] [--out docs/figures].

Of a run's page, which is written again first, and with --site of the documentation as `make site` left it. Desktop and
phone, light and dark, small files.
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
# name -> (page, width, height, colour scheme)
SITE = {
    "site-start": ("index.html", 1280, 820, "light"),
    "site-keys": ("reference/recipe-keys.html", 1280, 640, "dark"),
    "site-phone": ("tutorial/1-your-own-loop.html", 390, 780, "light"),
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("run", type=Path, nargs="?")
    parser.add_argument("--site", type=Path)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "figures")
    args = parser.parse_args()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))

        def opened(address, width, height, scheme):
            size = {"width": width, "height": height}
            tab = browser.new_context(viewport=size, color_scheme=scheme, reduced_motion="reduce").new_page()
            tab.goto(address)
            return tab

        if args.run:
            of_run(page.write(args.run).resolve(), opened, args.out)
        for name, (place, *look) in SITE.items() if args.site else ():
            tab = opened((args.site / place).resolve().as_uri(), *look)
            tab.wait_for_timeout(500)  # the theme fades in
            small(tab.screenshot(), args.out / f"{name}.png")
        browser.close()


def of_run(path, opened, out) -> None:
    for name, (place, *look) in SHOTS.items():
        tab = opened(path.as_uri(), *look)
        tab.wait_for_selector("html[data-ready=yes]")
        tab.evaluate("place => document.querySelector(place).scrollIntoView()", place)
        if place == "#lineage":  # an attempt that changed something and gained by it, if there is one
            bests = tab.locator("#tree g.node:not(.failed)[aria-level='3'] circle")
            (bests if bests.count() else tab.locator("#tree g.node circle")).first.click()
        if place == "#main":
            tab.evaluate("() => scrollTo(0, 0)")
        small(tab.screenshot(), out / f"{name}.png")
        tab.context.close()


def small(data: bytes, path: Path) -> None:
    """A picture of few colours in few bytes."""
    from PIL import Image

    picture = Image.open(io.BytesIO(data)).convert("RGB").quantize(128, dither=Image.Dither.NONE)
    picture.save(path, optimize=True)
    print(f"{path}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
