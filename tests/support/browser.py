"""Chromium without a screen, driven by its own driver over HTTP: no package is needed for it."""

import base64
import contextlib
import json
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CHROMIUM = next((found for name in ("chromium", "google-chrome") if (found := shutil.which(name))), None)
DRIVER = shutil.which("chromedriver")
MISSING = "no Chromium with chromedriver here (Debian: chromium, chromium-driver)"
_QUIET = ("--disable-gpu", "--disable-background-networking", "--disable-sync", "--disable-component-update")


class Browser:
    def __init__(self, port: int, profile: Path) -> None:
        self._address = f"http://127.0.0.1:{port}"
        options = {
            "binary": CHROMIUM,
            "args": ["--headless=new", "--no-sandbox", "--no-first-run", *_QUIET, f"--user-data-dir={profile}"],
        }
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        made = self._ask("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self._session = f"/session/{made['sessionId']}"

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        asked = urllib.request.Request(self._address + path, data=data, method=method)
        with urllib.request.urlopen(asked, timeout=120) as answer:
            return json.load(answer)["value"]

    def open(self, page: Path, fragment: str = "") -> None:
        self._ask("POST", f"{self._session}/url", {"url": page.as_uri() + fragment})

    def run(self, script: str, *arguments: Any) -> Any:
        """The value that this JavaScript returns."""
        return self._ask("POST", f"{self._session}/execute/sync", {"script": script, "args": list(arguments)})

    def wait(self, condition: str, seconds: float = 20) -> None:
        """Until this JavaScript expression is true."""
        end = time.monotonic() + seconds
        while not self.run(f"return Boolean({condition})"):
            assert time.monotonic() < end, f"not within {seconds} s: {condition}"
            time.sleep(0.05)

    def tool(self, command: str, **parameters: Any) -> Any:
        """A command of the DevTools protocol."""
        return self._ask("POST", f"{self._session}/goog/cdp/execute", {"cmd": command, "params": parameters})

    def size(self, width: int, height: int = 900) -> None:
        self.tool(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )

    def media(self, name: str = "", **features: str) -> None:
        """`name`: print or "" for the screen; features such as prefers_color_scheme="dark"."""
        named = [{"name": key.replace("_", "-"), "value": value} for key, value in features.items()]
        self.tool("Emulation.setEmulatedMedia", media=name, features=named)

    def key(self, text: str) -> None:
        for kind in ("keyDown", "keyUp"):
            self.tool("Input.dispatchKeyEvent", type=kind, key=text, code=text)

    def picture(self, file: Path) -> None:
        file.write_bytes(base64.b64decode(self._ask("GET", f"{self._session}/screenshot")))

    def complaints(self) -> list[str]:
        """What the page wrote to the console, errors of its script among it."""
        return [entry["message"] for entry in self._ask("POST", f"{self._session}/se/log", {"type": "browser"})]

    def quit(self) -> None:
        self._ask("DELETE", self._session)


@contextlib.contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """`folder`: for its profile and for what it downloads."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    driver = subprocess.Popen([str(DRIVER), f"--port={port}", "--log-level=SEVERE"], stdout=subprocess.DEVNULL)
    try:
        for _ in range(200):
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            time.sleep(0.05)
        made = Browser(port, folder / "profile")
        made.tool("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder))
        try:
            yield made
        finally:
            made.quit()
    finally:
        driver.terminate()
        driver.wait(10)
