"""A headless Chromium, driven over its DevTools pipe: JSON messages that end in a NUL byte. Needs nothing
but Python's standard library."""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

PATIENCE = 60  # seconds for one answer: the first start on a busy machine takes several


def find_chromium():
    """Path of a Chromium or Chrome, None where there is none."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        path = shutil.which(name)
        if path:
            return path
    return None


class Browser:
    def __init__(self, chromium, width, height, dark=False):
        self.profile = tempfile.mkdtemp(prefix="trainyard-chromium-")
        to_browser, self.to = os.pipe()
        self.back, from_browser = os.pipe()

        def hand_over_pipes():  # in the child: it reads from 3 and writes to 4
            spare_in, spare_out = os.dup(to_browser), os.dup(from_browser)
            os.dup2(spare_in, 3)
            os.dup2(spare_out, 4)

        self.process = subprocess.Popen(
            [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
             "--no-first-run", "--remote-debugging-pipe", f"--user-data-dir={self.profile}", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            preexec_fn=hand_over_pipes, close_fds=False)
        os.close(to_browser)
        os.close(from_browser)
        self.unread, self.last_id, self.session, self.events = b"", 0, None, []
        page = next(target for target in self.call("Target.getTargets")["targetInfos"] if target["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                  mobile=width < 600)
        if dark:
            self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])

    def __enter__(self):
        return self

    def __exit__(self, *ignored):
        self.process.kill()
        self.process.wait()
        os.close(self.to)
        os.close(self.back)
        shutil.rmtree(self.profile, ignore_errors=True)

    def message(self):
        while b"\0" not in self.unread:
            if not select.select([self.back], [], [], PATIENCE)[0]:
                raise RuntimeError(f"Chromium did not answer in {PATIENCE} s")
            more = os.read(self.back, 1 << 20)
            if not more:
                raise RuntimeError("Chromium ended")
            self.unread += more
        text, self.unread = self.unread.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, **parameters):
        self.last_id += 1
        request = {"id": self.last_id, "method": method, "params": parameters}
        if self.session:
            request["sessionId"] = self.session
        os.write(self.to, json.dumps(request).encode() + b"\0")
        while True:
            answer = self.message()
            if answer.get("id") != self.last_id:
                self.events.append(answer)
            elif "error" in answer:
                raise RuntimeError(f"{method}: {answer['error']}")
            else:
                return answer["result"]

    def evaluate(self, script):
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{script}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def open(self, path):
        self.events.clear()
        self.call("Page.navigate", url="file://" + os.path.abspath(path))
        end = time.monotonic() + PATIENCE
        while self.evaluate("document.documentElement?.dataset.drawn") != "yes":
            if time.monotonic() > end:
                raise RuntimeError(f"{path} was not drawn: {self.problems()}")
            time.sleep(0.05)
        self.painted()

    def painted(self):
        """What was drawn is on the screen two frames later."""
        self.call("Runtime.evaluate", awaitPromise=True,
                  expression="new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def key(self, *keys):
        for key in keys:
            text = {"text": key} if len(key) == 1 else {}
            self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
            self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def pointer(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def text(self, element_id):
        return self.evaluate(f"document.getElementById({json.dumps(element_id)}).innerText")

    def screenshot(self, path):
        image = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        with open(path, "wb") as file:
            file.write(base64.b64decode(image["data"]))

    def problems(self):
        """Errors and warnings of the console, and requests to anything but the page itself."""
        found = []
        for event in self.events:
            method, parameters = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                found.append(parameters["exceptionDetails"])
            elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning"):
                found.append(parameters["args"])
            elif method == "Log.entryAdded":
                found.append(parameters["entry"])
            elif method == "Network.requestWillBeSent" and not parameters["request"]["url"].startswith("file://"):
                found.append(parameters["request"]["url"])
        return found
