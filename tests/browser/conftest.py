"""A real Chromium against a console at work; whoever signs in does so at a certified OpenID provider.

Without Chromium or the provider's packages these tests are skipped, and say which of them is missing; in CI they fail.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page, async_playwright

from tests.console.house import House, bound_socket, house
from tests.node import missing_from, node_of
from tests.redis_fixture import RedisServer, _session_redis_server, free_port, redis_server

__all__ = ["_session_redis_server", "redis_server"]

HERE = Path(__file__).parent
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
SECRET = "the-clients-own-secret"
VIOLATIONS = """
window.violations = [];
addEventListener('securitypolicyviolation', (event) => window.violations.push(event.violatedDirective + ' ' + event.blockedURI));
"""


def missing() -> str:
    """Why these tests can't run, or nothing."""
    if not CHROMIUM:
        return "Chromium is not installed (Debian: apt-get install chromium)"
    return missing_from(HERE)


@dataclass
class Visitor:
    """One person's browser window. `allowed` are beginnings of console messages that the test expects."""

    page: Page
    home: House
    allowed: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def heard(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and self.home.origin in message.location.get("url", self.home.origin):
            self.said.append(message.text)

    async def sign_in(self, name: str, path: str = "/") -> None:
        """By the pages of the provider: its login, then its consent."""
        page = self.page
        await page.goto(self.home.origin + path)
        await page.get_by_role("link", name="Sign in with").click()
        await page.fill("input[name=login]", name)
        await page.fill("input[name=password]", "any")
        await page.get_by_role("button", name="Sign-in").click()
        await page.get_by_role("button", name="Continue").click()
        await page.wait_for_url(f"{self.home.origin}/**")

    async def goto(self, path: str) -> None:
        await self.page.goto(self.home.origin + path)

    async def violations(self) -> list[str]:
        found: list[str] = await self.page.evaluate("window.violations")
        return found

    def unexpected(self) -> list[str]:
        return [text for text in self.said if not text.startswith(tuple(self.allowed))]


@pytest.fixture
async def home(redis_server: RedisServer, tmp_path: Path) -> AsyncIterator[House]:
    secret_file = tmp_path / "client.secret"
    secret_file.write_text(SECRET)
    secret_file.chmod(0o600)
    with bound_socket() as listener:
        port, redirect = free_port(), f"http://127.0.0.1:{listener.getsockname()[1]}/sign-in/done"
        process = await asyncio.create_subprocess_exec(
            str(node_of(HERE)), str(HERE / "provider.mjs"), str(port), redirect, SECRET,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        try:
            assert process.stdout is not None
            async with asyncio.timeout(20):
                while line := await process.stdout.readline():
                    if line.strip() == b"listening":
                        break
            more = f'client_secret_file = "{secret_file}"'
            async with house(
                redis_server.url, tmp_path, listener=listener, issuer=f"http://127.0.0.1:{port}", more=more
            ) as made:
                yield made
        finally:
            process.terminate()
            await process.communicate()


@pytest.fixture
async def chromium() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        # Debian's package has no setuid sandbox in a container; nothing but our own pages is loaded.
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        await browser.close()


@asynccontextmanager
async def visiting(chromium: Browser, home: House, **context: object) -> AsyncIterator[Visitor]:
    """A window of its own. At its end there must have been no CSP violation, no console error and no script error."""
    window: BrowserContext = await chromium.new_context(**context)  # type: ignore[arg-type]
    window.set_default_timeout(20_000)
    await window.add_init_script(VIOLATIONS)
    visitor = Visitor(await window.new_page(), home)
    visitor.page.on("console", visitor.heard)
    visitor.page.on("pageerror", lambda error: visitor.said.append(f"script: {error}"))
    yield visitor
    if not visitor.page.is_closed() and visitor.page.url.startswith(home.origin):
        assert await visitor.violations() == []
    await window.close()
    assert visitor.unexpected() == []


@pytest.fixture
async def visitor(chromium: Browser, home: House) -> AsyncIterator[Visitor]:
    async with visiting(chromium, home) as made:
        yield made
