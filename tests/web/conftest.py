"""A browser in front of a real `dueline serve`, with its Spark and its web process."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest
from selenium.common.exceptions import StaleElementReferenceException, WebDriverException
from selenium.webdriver import ActionChains, Chrome
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from tests.serve.conftest import Served
from tests.unit.web.local import Site
from tests.waiting import wait_until

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
TOOLS = Path(__file__).parent / ".build"
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Browser:
    """A headless Chromium that knows one site."""

    driver: Chrome
    url: str

    def open(self, path: str) -> None:
        self.driver.get(f"{self.url}{path}")

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def find(self, selector: str) -> WebElement:
        """The first that can be seen; waits for it."""
        return self._until(
            lambda: next((each for each in self.all(selector) if each.is_displayed()), None),
            selector,
        )

    def button(self, text: str) -> WebElement:
        """A button that can be pressed now; waits for it."""

        return self._until(
            lambda: next(
                (b for b in self.all("button") if b.text == text and b.is_enabled()), None
            ),
            f"the button {text}",
        )

    def press(self, element: WebElement) -> None:
        """Click in the middle of something, whatever lies on it there."""
        ActionChains(self.driver).move_to_element(element).click().perform()

    def wait_for_text(self, text: str) -> None:
        """Until it stands somewhere on the page."""
        self._until(lambda: text in self.find("body").text or None, f"the words {text!r}")

    def _until(self, condition: Callable[[], _Result | None], what: str) -> _Result:
        """What it returns; the page may be another one between finding and looking."""

        def found() -> _Result | None:
            try:
                return condition()
            except StaleElementReferenceException:
                return None
            except WebDriverException as error:
                # What the driver says if the page goes while it is asked, and not before.
                if "does not belong to the document" not in str(error.msg):
                    raise
                return None

        return wait_until(found, what)

    def run(self, script: str, *arguments: object) -> Any:
        return self.driver.execute_script(script, *arguments)

    def look(self, *, width: int, height: int, theme: str) -> None:
        """Be a screen of this size, with this theme."""
        features = [{"name": "prefers-color-scheme", "value": theme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def asked_urls(self) -> list[str]:
        """What was asked for since the last time, wherever."""
        found = []
        for entry in self._log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                found.append(message["params"]["request"]["url"])
        return found

    def complaints(self) -> list[str]:
        """What the browser itself found wrong since the last time, but for refused requests."""
        found = [entry["message"] for entry in self._log("browser")]
        return [each for each in found if "Failed to load resource" not in each]

    def _log(self, name: str) -> list[dict[str, str]]:
        entries: list[dict[str, str]] = self.driver.get_log(name)  # type: ignore[no-untyped-call]
        return entries


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    served = Served(tmp_path_factory.mktemp("served"), "--http", "127.0.0.1:0")
    try:
        served.wait_until_ready()
        yield served
    finally:
        served.end()


@pytest.fixture(scope="session")
def site(served: Served) -> Site:
    """The same without a browser."""
    url = served.said(r"pages, API and metrics on (\S+)")
    return Site(port=int(url.rstrip("/").rpartition(":")[2]))


@pytest.fixture(scope="session")
def browser(site: Site) -> Iterator[Browser]:
    if CHROMIUM is None or DRIVER is None:
        pytest.skip("no browser: expected the programs chromium and chromedriver, found none")
    options = Options()
    options.binary_location = CHROMIUM
    for word in (
        *("--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"),
        *("--no-first-run", "--disable-background-networking", "--disable-component-update"),
        # Whatever is not on this machine has no address.
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
        *(["--no-sandbox"] if os.geteuid() == 0 else []),
    ):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = Chrome(options=options, service=Service(DRIVER))
    driver.set_script_timeout(120)
    browser = Browser(driver=driver, url=f"http://127.0.0.1:{site.port}")
    browser.look(width=1280, height=900, theme="light")
    try:
        yield browser
    finally:
        driver.quit()


@pytest.fixture(scope="session")
def axe() -> str:
    """axe-core's script, which judges how accessible a page is."""
    script = TOOLS / "node_modules" / "axe-core" / "axe.min.js"
    if not script.is_file():
        npm = shutil.which("npm")
        if npm is None:
            pytest.skip("axe-core: expected the program npm to get it with, found none")
        TOOLS.mkdir(exist_ok=True)
        words = [npm, "install", "--silent", "--no-audit", "--no-fund", "--no-save"]
        got = subprocess.run(
            [*words, "axe-core@4"], cwd=TOOLS, capture_output=True, text=True, check=False
        )
        if not script.is_file():
            pytest.skip(f"axe-core: expected npm to get it, found: {got.stderr.strip()[-200:]}")
    return script.read_text()
