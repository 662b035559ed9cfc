"""A bucket of Google Cloud Storage on this machine, for tests: python tests/fake_bucket.py PORT

The parts of its JSON API that gcsfs, tensorstore and tensorboardX use, with generations and
conditions: without those tensorstore's writers would overwrite each other. One bucket, in memory.
"""

import base64
import hashlib
import json
import re
import sys
import threading
import urllib.parse
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

BUCKET = "bucket"

_lock = threading.Lock()
_objects: dict[str, tuple[int, bytes]] = {}  # name -> generation, content
_uploads: dict[str, tuple[str, bytearray]] = {}  # resumable ones: number -> name, content
_clock = 1000  # of generations


class Refused(Exception):
    """Answered with a status of HTTP."""

    def __init__(self, status: int):
        super().__init__(status)
        self.status = status


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        self._answer(self._get)

    def do_POST(self):
        self._answer(self._post)

    def do_PUT(self):
        self._answer(self._post)

    def do_DELETE(self):
        self._answer(self._delete)

    def _answer(self, work):
        url = urllib.parse.urlsplit(self.path)
        self.query = dict(urllib.parse.parse_qsl(url.query))
        self.place = url.path.removeprefix("/download").removeprefix("/upload")
        length = int(self.headers.get("Content-Length") or 0)
        self.body = self.rfile.read(length)
        try:
            with _lock:
                status, headers, content = work()
        except Refused as refused:
            status, headers = refused.status, {}
            content = json.dumps({"error": {"code": status, "message": "refused"}}).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if status != 304:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if status != 304:
            self.wfile.write(content)

    def _name(self) -> str:
        """Of the object that the address is about; '' if it is about all of them."""
        found = re.fullmatch(rf"/storage/v1/b/{BUCKET}/o(?:/(.*))?", self.place)
        if not found:
            raise Refused(404)
        return urllib.parse.unquote(found[1] or "")

    def _get(self):
        if self.place == f"/storage/v1/b/{BUCKET}":
            return _json({"kind": "storage#bucket", "name": BUCKET})
        if not (name := self._name()):
            return _json(self._listing())
        generation, content = _objects.get(name, (0, b""))
        self._check(generation, 304)
        if not generation:
            raise Refused(404)
        if self.query.get("alt") != "media":
            return _json(_about(name))
        headers = {"x-goog-generation": str(generation), "Content-Type": "text/plain"}
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
        if not wanted:
            return 200, headers, content
        first, last = int(wanted[1]), int(wanted[2] or len(content) - 1)
        if first >= len(content):
            raise Refused(416)
        last = min(last, len(content) - 1)
        headers["Content-Range"] = f"bytes {first}-{last}/{len(content)}"
        return 206, headers, content[first : last + 1]

    def _listing(self) -> dict[str, Any]:
        prefix, delimiter = self.query.get("prefix", ""), self.query.get("delimiter", "")
        start, end = self.query.get("startOffset", ""), self.query.get("endOffset", "\U0010ffff")
        items, prefixes = [], set()
        for name in sorted(_objects):
            if not name.startswith(prefix) or not start <= name < end:
                continue
            inside = name[len(prefix) :]
            if delimiter and delimiter in inside:
                prefixes.add(prefix + inside.partition(delimiter)[0] + delimiter)
            else:
                items.append(_about(name))
        first = int(self.query.get("pageToken", 0))
        last = first + int(self.query.get("maxResults", 1000))
        page = {"kind": "storage#objects", "items": items[first:last], "prefixes": []}
        page["prefixes"] = sorted(prefixes) if first == 0 else []
        return page | ({"nextPageToken": str(last)} if last < len(items) else {})

    def _post(self):
        if "upload_id" in self.query:
            return self._go_on(self.query["upload_id"])
        self._name()
        kind, name = self.query["uploadType"], self.query.get("name", "")
        if kind == "resumable":
            number = uuid.uuid4().hex
            _uploads[number] = name or json.loads(self.body)["name"], bytearray()
            host = self.headers["Host"]
            place = f"http://{host}/upload{self.place}?uploadType=resumable&upload_id={number}"
            return 200, {"Location": place}, b""
        content = self.body
        if kind == "multipart":
            boundary = self.headers["Content-Type"].partition("boundary=")[2].strip("\"'").encode()
            _, about, content, _ = self.body.split(b"--" + boundary)
            name = name or json.loads(about.partition(b"\r\n\r\n")[2])["name"]
            content = re.split(rb"\r?\n\r?\n", content, maxsplit=1)[1]
            content = re.sub(rb"\r?\n\Z", b"", content)
        self._check(_objects.get(name, (0, b""))[0], 412)
        return _json(_put(name, content))

    def _go_on(self, number: str):
        """Takes a part of a resumable upload: the last one if it tells how long the whole is."""
        name, content = _uploads[number]
        content += self.body
        if (self.headers.get("Content-Range") or "").endswith("/*"):
            return 308, {"Range": f"bytes=0-{len(content) - 1}"}, b""
        del _uploads[number]
        return _json(_put(name, bytes(content)))

    def _delete(self):
        name = self._name()
        generation = _objects.get(name, (0, b""))[0]
        self._check(generation, 412)
        if not generation:
            raise Refused(404)
        del _objects[name]
        return 204, {}, b""

    def _check(self, generation: int, status: int) -> None:
        """Conditions of a request; 0 is the generation of what is not there."""
        wanted, unwanted = (self.query.get(f"ifGeneration{word}") for word in ("Match", "NotMatch"))
        if wanted is not None and int(wanted) != generation:
            raise Refused(412)
        if unwanted is not None and int(unwanted) == generation:
            raise Refused(404 if not generation else status)


def _put(name: str, content: bytes) -> dict[str, Any]:
    global _clock
    _clock += 1
    _objects[name] = _clock, content
    return _about(name)


def _about(name: str) -> dict[str, Any]:
    generation, content = _objects[name]
    digest = hashlib.md5(content, usedforsecurity=False).digest()
    return {
        "kind": "storage#object",
        "name": name,
        "bucket": BUCKET,
        "generation": str(generation),
        "metageneration": "1",
        "size": str(len(content)),
        "md5Hash": base64.b64encode(digest).decode(),
        "timeCreated": "2026-01-01T00:00:00.000Z",
        "updated": "2026-01-01T00:00:00.000Z",
    }


def _json(value: dict[str, Any]):
    generation = {"x-goog-generation": value["generation"]} if "generation" in value else {}
    headers = {"Content-Type": "application/json"} | generation
    return 200, headers, json.dumps(value).encode()


if __name__ == "__main__":
    ThreadingHTTPServer(("localhost", int(sys.argv[1])), Handler).serve_forever()
