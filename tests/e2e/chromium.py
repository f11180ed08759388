"""A headless Chromium, driven over its own pipe (Chrome DevTools Protocol, NUL-terminated JSON on two descriptors)."""
import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Browser:
    """One page. `requests` are the addresses it asked for, `complaints` what its console said of errors."""

    def __init__(self, width=1280, height=900, dark=False):
        self.profile = tempfile.mkdtemp(prefix="rivulet-chromium-")
        self.requests, self.complaints, self.buffer, self.next_id = [], [], b"", 0
        to_browser, self.write = os.pipe()
        self.read, from_browser = os.pipe()
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 20) for end in (to_browser, from_browser)]

        def take_ends():
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)

        self.process = subprocess.Popen(
            [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", f"--user-data-dir={self.profile}",
             f"--window-size={width},{height}", "--remote-debugging-pipe"],
            preexec_fn=take_ends, close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        for end in (to_browser, from_browser, *ends):
            os.close(end)
        self.session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.read)
        os.close(self.write)
        shutil.rmtree(self.profile, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def message(self, timeout):
        until = time.monotonic() + timeout
        while b"\0" not in self.buffer:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.read], [], [], left)[0]:
                return None
            read = os.read(self.read, 1 << 16)
            if not read:
                raise AssertionError(f"Chromium ended with status {self.process.wait(10)}")
            self.buffer += read
        text, self.buffer = self.buffer.split(b"\0", 1)
        message = json.loads(text)
        parameters = message.get("params", {})
        if message.get("method") == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        if message.get("method") == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.complaints.append(parameters["entry"]["text"])
        if message.get("method") == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(parameters["exceptionDetails"]))
        if message.get("method") == "Runtime.consoleAPICalled" and parameters["type"] == "error":
            self.complaints.append(json.dumps(parameters["args"]))
        return message

    def call(self, method, **parameters):
        self.next_id += 1
        request = {"id": self.next_id, "method": method, "params": parameters}
        if self.session:
            request["sessionId"] = self.session
        os.write(self.write, json.dumps(request).encode() + b"\0")
        while (message := self.message(60)) is not None:
            if message.get("id") == self.next_id:
                assert "error" not in message, message
                return message["result"]
        raise AssertionError(f"Chromium did not answer {method}")

    def open(self, url):
        self.call("Page.navigate", url=url)
        self.wait_for("document.readyState === 'complete' && location.href !== 'about:blank'")

    def evaluate(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def wait_for(self, expression, timeout=60):
        until = time.monotonic() + timeout
        while time.monotonic() < until:
            if value := self.evaluate(expression):
                return value
            self.message(0.02)
        raise AssertionError(f"waited {timeout} s for {expression}; the page says\n" +
                             self.evaluate("document.body.innerText"))

    def first_paint_ms(self):
        return self.wait_for("performance.getEntriesByName('first-contentful-paint').map(e => e.startTime)[0]")

    def screenshot(self, path, whole=True):
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))
