"""The page of a run of 128 chains and 300 steps: how long it takes to make, its size, how soon it is open.

    python benchmarks/bench_report.py [--chains 128 --steps 300 --arms 1]

The run is written by the real log, with scripts that descend from one another. Opening is measured in Chromium without
a window, from the address to the moment the tree of attempts can be clicked, the median of five; and so is the first
click, which unpacks the scripts.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import made_run
from rewardrate.reports import page

LIMIT_BYTES, LIMIT_SECONDS = 15_000_000, 2.0


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--chains", type=int, default=128)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--arms", type=int, choices=(1, 2), default=1)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "run"
        for arm in ("rpg", "vanilla")[: args.arms]:
            made_run.make(folder / arm, arm=arm, steps=args.steps, batch=args.chains, fast=True)
        start = time.perf_counter()
        path = page.write(folder)
        made = time.perf_counter() - start
        size = path.stat().st_size
        print(f"{args.arms} x {args.chains} x {args.steps} attempts: {size / 1e6:.2f} MB, made in {made:.1f} s")
        good = size < LIMIT_BYTES
        browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
        if browser is None:
            print("there is no Chromium here: opening is not measured")
            return 0 if good else 1
        ready, click = opened(browser, path)
        print(f"open after {ready:.2f} s (limit {LIMIT_SECONDS:.0f}), another script after {click:.2f} s")
        return 0 if good and ready < LIMIT_SECONDS else 1


def opened(browser: str, path: Path) -> tuple[float, float]:
    from playwright.sync_api import sync_playwright

    times = []
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser)
        for _ in range(5):
            tab = chromium.new_context().new_page()
            start = time.perf_counter()
            tab.goto(path.as_uri())
            tab.locator("#attempt h3").wait_for()
            ready = time.perf_counter() - start
            start = time.perf_counter()
            tab.locator("#tree g.node:not(.chosen):not([data-place='-1']) circle").first.click()
            tab.locator("#attempt .diff, #attempt pre").first.wait_for()
            times.append((ready, time.perf_counter() - start))
            tab.context.close()
        chromium.close()
    return statistics.median(ready for ready, _ in times), statistics.median(click for _, click in times)


if __name__ == "__main__":
    sys.exit(main())
