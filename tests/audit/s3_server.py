"""A small, strict server of S3's: it checks each signature (AWS Signature Version 4) by itself, and knows put, get and list.

Strict: a request that is unsigned, signed by another key, for another region, too old, or whose body is not the signed one gets
403; an object is put only where the request says `If-None-Match: *`, and 412 answers where there is one already.
https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import hmac
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlsplit
from xml.sax.saxutils import escape

KEY_ID, SECRET, REGION, BUCKET = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "eu-test-1", "anchors"
_AUTHORIZATION: Final = re.compile(
    r"AWS4-HMAC-SHA256 Credential=([^/]+)/([0-9]{8})/([^/]+)/s3/aws4_request, ?"
    r"SignedHeaders=([a-z0-9;-]+), ?Signature=([0-9a-f]{64})"
)
_MUST_BE_SIGNED: Final = {"host", "x-amz-date", "x-amz-content-sha256"}


class S3Server:
    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.refused: list[str] = []
        self.requests: list[str] = []
        self.broken = False
        """Answers 500."""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @contextlib.contextmanager
    def running(self) -> Iterator[S3Server]:
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()


def mistake(method: str, target: str, headers: dict[str, str], body: bytes) -> str:
    """What is wrong with the request's signature; empty: it is good."""
    found = _AUTHORIZATION.fullmatch(headers.get("authorization", ""))
    if found is None:
        return "not signed"
    key_id, day, region, names, signature = found.groups()
    signed = names.split(";")
    moment, digest = headers.get("x-amz-date", ""), headers.get("x-amz-content-sha256", "")
    if key_id != KEY_ID or region != REGION:
        return "another key or region"
    if not set(signed) >= _MUST_BE_SIGNED or any(name not in headers for name in signed):
        return "headers that must be signed are not"
    if digest != hashlib.sha256(body).hexdigest():
        return "another body than the signed one"
    sent = datetime.datetime.strptime(moment, "%Y%m%dT%H%M%SZ").replace(tzinfo=datetime.UTC)
    if not moment.startswith(day) or abs((datetime.datetime.now(datetime.UTC) - sent).total_seconds()) > 900:
        return "too old"
    good = signature_of(method, target, headers, names, SECRET, region)
    return "" if hmac.compare_digest(good, signature) else "another signature"


def signature_of(method: str, target: str, headers: dict[str, str], names: str, secret: str, region: str) -> str:
    """In hex. `names`: of the signed headers, sorted, with semicolons."""
    parts, moment = urlsplit(target), headers["x-amz-date"]
    pairs = sorted(
        (quote(name, safe="-_.~"), quote(value, safe="-_.~"))
        for name, value in parse_qsl(parts.query, keep_blank_values=True)
    )
    canonical = "\n".join(
        (
            method,
            quote(unquote(parts.path), safe="/-_.~"),
            "&".join(f"{name}={value}" for name, value in pairs),
            "".join(f"{name}:{' '.join(headers[name].split())}\n" for name in names.split(";")),
            names,
            headers["x-amz-content-sha256"],
        )
    )
    scope = (moment[:8], region, "s3", "aws4_request")
    text = f"AWS4-HMAC-SHA256\n{moment}\n{'/'.join(scope)}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    key = f"AWS4{secret}".encode()
    for part in scope:
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.digest(key, text.encode(), "sha256").hex()


def _handler(server: S3Server) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_PUT(self) -> None:
            key = self._key()
            if key is None:
                return
            if self.headers.get("if-none-match") != "*":
                self._answer(400)
            elif key in server.objects:
                self._answer(412, b"<Error><Code>PreconditionFailed</Code></Error>")
            else:
                server.objects[key] = self.body
                self._answer(200)

        def do_GET(self) -> None:
            key = self._key()
            if key is None:
                return
            if key:
                found = server.objects.get(key)
                self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>") if found is None else self._answer(
                    200, found
                )
                return
            query = dict(parse_qsl(urlsplit(self.path).query))
            keys = sorted(one for one in server.objects if one.startswith(query.get("prefix", "")))
            rows = "".join(
                f"<Contents><Key>{escape(one)}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>&quot;x&quot;</ETag>"
                f"<Size>{len(server.objects[one])}</Size></Contents>"
                for one in keys[:1000]
            )
            self._answer(200, f"<ListBucketResult><IsTruncated>false</IsTruncated>{rows}</ListBucketResult>".encode())

        def _key(self) -> str | None:
            """The object's key, empty for the bucket; None where the request was refused."""
            self.body = self.rfile.read(int(self.headers.get("content-length") or 0))
            server.requests.append(f"{self.command} {self.path}")
            if server.broken:
                self._answer(500)
                return None
            headers = {name.lower(): value for name, value in self.headers.items()}
            wrong = mistake(self.command, self.path, headers, self.body)
            path = unquote(urlsplit(self.path).path)
            if not wrong and not (path + "/").startswith(f"/{BUCKET}/"):
                wrong = "another bucket"
            if wrong:
                server.refused.append(wrong)
                self._answer(403, b"<Error><Code>SignatureDoesNotMatch</Code></Error>")
                return None
            return path.removeprefix(f"/{BUCKET}").lstrip("/")

        def _answer(self, status: int, body: bytes = b"") -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("ETag", f'"{hashlib.md5(body or self.body, usedforsecurity=False).hexdigest()}"')
            self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    return Handler
