"""Reading one address: whole, in time, and no other."""

from __future__ import annotations

import time
from http.server import BaseHTTPRequestHandler

import pytest

from rooflens.errors import InputError
from rooflens.live.scrape import UnreadError, checked_url, scrape
from tests.metrics_server import dying, late, served, status


def read(url: str, timeout_s: float = 2.0, limit: int = 10_000) -> bytes:
    return scrape(url, timeout_s=timeout_s, limit=limit)


def test_an_answer() -> None:
    with served("a 1\n") as server:
        assert read(server.url) == b"a 1\n"
        assert server.asked == ["/metrics"]


@pytest.mark.parametrize(
    "url",
    ["", "localhost:8000/metrics", "file:///etc/passwd", "ftp://127.0.0.1/x", "http://", "http://127.0.0.1:99999/",
     "http://[::1", "http://a b/", "http://a/\nx", "javascript:1"],
)  # fmt: skip
def test_other_addresses_are_refused(url: str) -> None:
    with pytest.raises(InputError, match="expected one such as http://HOST:PORT/metrics") as caught:
        checked_url(url)
    assert not isinstance(caught.value, UnreadError)


def test_a_password_is_not_repeated() -> None:
    with pytest.raises(InputError) as caught:
        checked_url("http://me:geheim@127.0.0.1/metrics")
    assert "geheim" not in str(caught.value)


def test_a_query_is_not_shown() -> None:
    with served(status(500)) as server, pytest.raises(UnreadError) as caught:
        read(f"{server.url}?token=geheim")
    assert "geheim" not in str(caught.value)


def test_late_answers_and_dying_servers() -> None:
    with served(late(1.0)) as server, pytest.raises(UnreadError, match=r"no answer within 0\.1 s"):
        read(server.url, timeout_s=0.1)
    with served(dying) as server, pytest.raises(UnreadError, match="stopped after 39 of 5,000 bytes"):
        read(server.url)
    with served("x") as server:
        url = server.url
    with pytest.raises(UnreadError, match="could not be read"):
        read(url)


def test_a_server_that_drips_is_late() -> None:
    def drip(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        for _ in range(40):
            handler.wfile.write(b"x")
            handler.wfile.flush()
            time.sleep(0.05)

    with served(drip) as server:
        start = time.monotonic()
        with pytest.raises(UnreadError, match="still sending"):
            read(server.url, timeout_s=0.3)
        assert time.monotonic() - start < 1.5


def test_a_huge_answer_is_refused() -> None:
    with served("x" * 20_000) as server, pytest.raises(UnreadError, match="more than 10,000 bytes"):
        read(server.url)


@pytest.mark.parametrize("code", [404, 500])
def test_no_success(code: int) -> None:
    with served(status(code)) as server, pytest.raises(UnreadError, match=f"status {code}"):
        read(server.url)


def test_redirects_stay_on_the_host() -> None:
    with served("secret 1\n") as other, served(status(302, Location=other.url)) as server:
        with pytest.raises(UnreadError, match="another host"):
            read(server.url)
        assert other.asked == []
    with served(status(302, Location="/other"), "a 1\n") as server:
        assert read(server.url) == b"a 1\n"
        assert server.asked == ["/metrics", "/other"]
    with served(status(302, Location="file:///etc/passwd")) as server, pytest.raises(UnreadError):
        read(server.url)


def test_proxies_of_the_environment_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with served("a 1\n") as server:
        assert read(server.url) == b"a 1\n"
