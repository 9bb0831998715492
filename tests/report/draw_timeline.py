#!/usr/bin/env python3
"""Draws docs/timeline.png again, with headless Chromium: draw_timeline.py TRAINYARD. The timeline that README shows, as the
report of its study has it, at three pixels for two."""
import base64
import os
import subprocess
import sys
import tempfile

from devtools import Browser, find_chromium

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
STUDY = os.path.join(ROOT, "configs", "gpt3-175b-zero-bubble.yaml")
WIDTH = 1106  # of the page

# Only what computes, and in sight.
COMPUTE = """(() => {
  const streams = document.querySelector('#timeline-streams');
  streams.value = 'main';
  streams.dispatchEvent(new Event('change'));
  document.getElementById('timeline').scrollIntoView();
})()"""

# The legend and the timeline below it, with the space around both.
BOX = """(() => {
  const of = (id) => document.getElementById(id).getBoundingClientRect();
  const legend = of('timeline-legend'), view = of('timeline-view'), space = 8;
  return [view.left - space, legend.top + scrollY - space, view.width + 2 * space, view.bottom - legend.top + space + 2];
})()"""


def main():
    trainyard = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out")
        subprocess.run([trainyard, "simulate", STUDY, "--set", "training.global_batch=256", "--out", out],
                       stdout=subprocess.DEVNULL, check=True)
        with Browser(find_chromium(), WIDTH, 1200) as browser:
            browser.call("Emulation.setDeviceMetricsOverride", width=WIDTH, height=1200, deviceScaleFactor=1.5, mobile=False)
            browser.open(os.path.join(out, "report.html"))
            browser.evaluate(COMPUTE)
            browser.painted()
            x, y, width, height = browser.evaluate(BOX)
            image = browser.call("Page.captureScreenshot", format="png",
                                 clip={"x": x, "y": y, "width": width, "height": height, "scale": 1})
    with open(os.path.join(ROOT, "docs", "timeline.png"), "wb") as file:
        file.write(base64.b64decode(image["data"]))


if __name__ == "__main__":
    main()
