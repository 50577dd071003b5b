"""Reading one /metrics address that the user gave: bounded in time and size, and nothing else is asked for."""

from __future__ import annotations

import http.client
import time
import urllib.error
import urllib.request
from typing import IO, Any
from urllib.parse import SplitResult, urlsplit

from rooflens.errors import InputError
from rooflens.version import __version__

_CHUNK = 65536
_SCHEMES = ("http", "https")


class UnreadError(InputError):
    """An answer that did not come, or not whole: the next one may."""


def checked_url(url: str) -> str:
    """`url`, if it is one that is read.

    Raises:
        InputError: no http or https address with a host, or one that holds a password.
    """
    parts = _split(url)
    if parts is None or parts.scheme not in _SCHEMES or not parts.hostname:
        raise InputError(f"{_shown(url)} is no address; expected one such as http://HOST:PORT/metrics")
    if parts.username is not None or parts.password is not None:
        raise InputError("the address holds a user name or a password, which would be shown; leave it out")
    return url


def scrape(url: str, *, timeout_s: float, limit: int) -> bytes:
    """The body of `url`, whole, in at most `timeout_s` seconds and `limit` bytes.

    Proxies of the environment are not used; a redirect is followed to the same host and port alone.

    Raises:
        InputError: `checked_url` refuses it. UnreadError: no answer, a late, cut or long one, or no success.
    """
    request = urllib.request.Request(
        checked_url(url), headers={"Accept": "text/plain", "User-Agent": f"rooflens/{__version__}"}
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _SameHost())
    end = time.monotonic() + timeout_s
    try:
        with opener.open(request, timeout=timeout_s) as answer:
            return _body(answer, end, limit, url)
    except UnreadError:
        raise
    except urllib.error.HTTPError as error:
        error.close()
        raise UnreadError(f"{_shown(url)} answered with status {error.code}; expected 200") from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        late = isinstance(error, TimeoutError) or isinstance(getattr(error, "reason", None), TimeoutError)
        why = f"no answer within {timeout_s:g} s" if late else _reason(error)
        raise UnreadError(f"{_shown(url)} could not be read ({why})") from error


def _body(answer: IO[bytes], end: float, limit: int, url: str) -> bytes:
    """What comes until `end`, in pieces: a server that sends a byte now and then is late as well."""
    read = getattr(answer, "read1", answer.read)
    found = bytearray()
    while piece := read(_CHUNK):
        found += piece
        if len(found) > limit:
            raise UnreadError(
                f"{_shown(url)} answered with more than {limit:,} bytes; expected the metrics of a server"
            )
        if time.monotonic() > end:
            raise UnreadError(f"{_shown(url)} was still sending when its time was over")
    stated = getattr(answer, "headers", {}).get("Content-Length", "")
    if stated.isdecimal() and int(stated) != len(found):
        raise UnreadError(f"{_shown(url)} stopped after {len(found):,} of {int(stated):,} bytes")
    return bytes(found)


class _SameHost(urllib.request.HTTPRedirectHandler):
    """Follows a redirect to the host and port that were asked, and no other."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        """The request to `newurl`. Raises UnreadError for another host."""
        old, new = _split(req.full_url), _split(newurl)
        if old is None or new is None or _place(old) != _place(new):
            raise UnreadError(f"{_shown(req.full_url)} redirects to another host, which is not followed")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _split(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return None
    return parts if url.isascii() and url.isprintable() and " " not in url else None


def _place(parts: SplitResult) -> tuple[str, str | None, int | None]:
    return parts.scheme, parts.hostname, parts.port


def _shown(url: str) -> str:
    """`url` without a query, which may hold a secret, at most 100 characters."""
    return url.partition("?")[0][:100] if "@" not in url else "the address"


def _reason(error: Exception) -> str:
    inner = getattr(error, "reason", None)
    cause = inner if isinstance(inner, OSError) else error
    return (getattr(cause, "strerror", None) or str(cause) or type(cause).__name__)[:120]
