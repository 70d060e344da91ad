"""Files behind URLs, read as HttpOptions say."""
import http.server
import pickle
import re
import tempfile
import threading
import unittest

import millrace as mr

BODY = b"7\n8\n"


class Store(http.server.BaseHTTPRequestHandler):
    """Answers requests that are signed, and counts the others."""

    refused = 0

    def do_GET(self):
        if self.headers["X-Key"] != "one":
            Store.refused += 1
            self.send_response(503)
            self.end_headers()
            return
        first, last = map(int, re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers["Range"]).groups())
        body = BODY[first:last + 1]
        self.send_response(206)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Range", f"bytes {first}-{first + len(body) - 1}/{len(BODY)}")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def sign(url, first, last):
    """Signs requests for a.csv."""
    assert url.endswith("/a.csv") and 0 <= first <= last
    return {"X-Key": "one"}


def raise_error(_url, _first, _last):
    raise ValueError("no key")


class HttpTest(unittest.TestCase):
    def setUp(self):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Store)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.plan = (mr.text(f"http://127.0.0.1:{server.server_port}/a.csv")
                     .parse_csv(mr.feature("x", int)).batch(2))
        Store.refused = 0

    def open(self, **options):
        return self.plan.numpy("x", index_folder=self.folder, http=mr.HttpOptions(**options))

    def test_requests_are_signed(self):
        with self.open(sign=sign) as loader:
            self.assertEqual(loader.next()["x"].tolist(), [7, 8])
        self.assertEqual(Store.refused, 0)

    def test_explain_reads_as_loaders_do(self):
        told = self.plan.explain(index_folder=self.folder, http=mr.HttpOptions(sign=sign))
        self.assertRegex(told, r"records +2 ")

    def test_attempts_are_counted(self):
        with self.assertRaises(mr.Unavailable):
            self.open(max_attempts=3, backoff=0, max_backoff=0).open()
        self.assertEqual(Store.refused, 3)

    def test_what_signing_raises_is_shown_and_the_request_goes_unsigned(self):
        with self.assertRaises(mr.Unavailable):
            self.open(sign=raise_error, max_attempts=1).open()
        self.assertEqual(Store.refused, 1)

    def test_wrong_options_are_named(self):
        with self.assertRaisesRegex(ValueError, "negative"):
            self.open(max_attempts=-1)
        with self.assertRaisesRegex(ValueError, "max_in_flight"):
            self.open(max_in_flight=0).open()

    def test_loaders_with_options_are_pickled(self):
        loader = pickle.loads(pickle.dumps(self.open(sign=sign, stall_time=1.5)))
        self.assertEqual(loader.next()["x"].tolist(), [7, 8])


if __name__ == "__main__":
    unittest.main()
