# SPDX-License-Identifier: BSD-3-Clause
"""Chromium in a network namespace, controlled by the WebDriver protocol."""
import base64
import http.client
import json
import os

from netns import Program, wait_for

PORT = 9515
OPTIONS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
           "--no-first-run", "--disable-background-networking", "--window-size=1400,1800"]


class Browser:
    """Chromium in a namespace. The caller must kill the browser, or remove the namespace."""

    def __init__(self, namespace, folder):
        self.namespace = namespace
        home = os.path.join(folder, "browser")
        os.mkdir(home)
        self.program = Program("chromedriver", namespace, ("chromedriver", f"--port={PORT}"),
                               os.path.join(home, "log"), env={**os.environ, "HOME": home, "TMPDIR": home})
        wait_for("chromedriver ready", lambda: self.call("GET", "/status")["ready"], 20)
        self.session = ""
        answer = self.call("POST", "/session", {"capabilities": {"alwaysMatch": {
            "goog:chromeOptions": {"args": OPTIONS + [f"--user-data-dir={home}/profile"]},
            "goog:loggingPrefs": {"browser": "ALL"}}}})
        self.session = f"/session/{answer['sessionId']}"

    def call(self, method, path, body=None):
        with self.namespace.inside():
            connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=150)
            connection.connect()
        connection.request(method, path, None if method == "GET" else json.dumps(body or {}),
                           {"Content-Type": "application/json"})
        answer = json.loads(connection.getresponse().read())["value"]
        connection.close()
        assert not (isinstance(answer, dict) and "error" in answer), answer
        return answer

    def open(self, url):
        self.call("POST", self.session + "/url", {"url": url})

    def run(self, script):
        """Run JavaScript in the page, as the body of a function. Returns its value."""
        return self.call("POST", self.session + "/execute/sync", {"script": script, "args": []})

    def rows(self, table, kind=":not(.group)"):
        """Returns the texts of a table's cells, row by row. kind: CSS selector of rows; by default no group headers."""
        return self.run(f"return [...document.querySelectorAll('#{table} tbody tr{kind}')]"
                        ".map((row) => [...row.cells].map((cell) => cell.textContent));")

    def scheme(self, name):
        """Emulate the preferred colour scheme `light` or `dark`."""
        self.call("POST", self.session + "/goog/cdp/execute",
                  {"cmd": "Emulation.setEmulatedMedia",
                   "params": {"features": [{"name": "prefers-color-scheme", "value": name}]}})

    def width(self, pixels, height=1800):
        """Set the width of the page. It can be less than the minimum width of a browser window."""
        self.call("POST", self.session + "/goog/cdp/execute",
                  {"cmd": "Emulation.setDeviceMetricsOverride",
                   "params": {"width": pixels, "height": height, "deviceScaleFactor": 1, "mobile": False}})

    def complaints(self):
        """Returns the browser's console messages: errors, and violations of the page's security policy."""
        return [entry["message"] for entry in
                self.call("POST", self.session + "/se/log", {"type": "browser"})]

    def screenshot(self, name):
        """Returns a screenshot as bytes. Also saves it in the folder WEIR_SCREENSHOTS if this is set."""
        picture = base64.b64decode(self.call("GET", self.session + "/screenshot"))
        folder = os.environ.get("WEIR_SCREENSHOTS")
        if folder:
            with open(os.path.join(folder, name + ".png"), "wb") as file:
                file.write(picture)
        return picture

    def updated(self, times=1, timeout=60):
        """Wait until the page has shown `times` more replies."""
        script = "return Number(document.body.dataset.updates || 0);"
        before = self.run(script)
        wait_for("the page to update", lambda: self.run(script) >= before + times, timeout, 0.1)
