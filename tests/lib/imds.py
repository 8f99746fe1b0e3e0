# SPDX-License-Identifier: Apache-2.0
"""The metadata service of an EC2 instance on loopback, as far as notices of an interruption go."""

import http.server
import json
import threading
import time

BASE = "/latest/meta-data/"


class Imds:
    """with Imds() as imds: machine with environment imds.env; imds.interrupt(120)."""

    def __init__(self):
        self.answers = {BASE + "instance-id": "i-0123456789abcdef0"}
        imds = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_PUT(self):
                self.answer("token")

            def do_GET(self):
                imds.asked += 1
                self.answer(imds.answers.get(self.path))

            def answer(self, text):
                body = (text or "").encode()
                self.send_response(404 if text is None else 200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.asked = 0
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.env = {
            "AWS_EC2_METADATA_DISABLED": "false",
            "AWS_EC2_METADATA_SERVICE_ENDPOINT": f"http://127.0.0.1:{self.server.server_port}",
        }

    def interrupt(self, seconds, action="terminate"):
        """The machine goes in so many seconds."""
        at = time.gmtime(time.time() + seconds)
        text = json.dumps({"action": action, "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", at)})
        self.answers[BASE + "spot/instance-action"] = text

    def recommend(self):
        text = json.dumps({"noticeTime": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())})
        self.answers[BASE + "events/recommendations/rebalance"] = text

    def withdraw(self):
        self.answers.pop(BASE + "spot/instance-action", None)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
