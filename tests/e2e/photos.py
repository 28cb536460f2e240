"""Photos for the tests: drawn ones whose mask is known, and a server that takes its time over each.

A slow server keeps a worker busy for as long as a test likes, at an even pace and without taking the processor from
everybody else.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw

SERVER = "photos"  # the host in the addresses
PORT = 8000
RADIUS = 80
DISC_AREA = math.pi * RADIUS**2

# Answers GET /SECONDS/anything.png after so long; asked for the size alone, at once.
_SERVE = """
import io, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from PIL import Image, ImageDraw

picture = Image.new("RGB", (64, 48), (128, 128, 128))
ImageDraw.Draw(picture).ellipse((8, 8, 32, 32), fill=(220, 20, 30))
file = io.BytesIO()
picture.save(file, "PNG")

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        time.sleep(float(self.path.split("/")[1]))
        self.do_HEAD()
        self.wfile.write(file.getvalue())

    def do_HEAD(self):
        self.send_response(200)
        self.send_header("Content-Type", "image/png")
        self.send_header("Content-Length", str(len(file.getvalue())))
        self.end_headers()

    def log_message(self, *_):
        pass

ThreadingHTTPServer(("", %d), Handler).serve_forever()
"""


def draw(folder: Path, count: int) -> None:
    """`count` photos, each with one red disc of `RADIUS` on grey, large enough to take a worker a moment."""
    folder.mkdir(parents=True)
    for number in range(count):
        picture = Image.new("RGB", (900 + number, 700), (128, 128, 128))
        centre = (150 + 10 * number, 150 + 8 * number)
        ImageDraw.Draw(picture).circle(centre, RADIUS, fill=(220, 20, 30))
        picture.save(folder / f"disc-{number:02}.png", compress_level=1)


def slow(name: str, count: int, each_s: float) -> Mapping[str, Any]:
    """`spec.images` of so many photos, each of which takes `each_s` seconds to arrive."""
    return {"list": [{"image": f"http://{SERVER}:{PORT}/{each_s}/{name}-{number:03}.png"} for number in range(count)]}


def server(image: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The pod and the Service of the slow server; `image` has Python and Pillow."""
    container = {
        "name": "server",
        "image": image,
        "command": ["python", "-c", _SERVE % PORT],
        "ports": [{"containerPort": PORT}],
        "readinessProbe": {"tcpSocket": {"port": PORT}, "periodSeconds": 1},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": SERVER, "labels": {"app": SERVER}},
        "spec": {
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 1,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 10001,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [container],
        },
    }
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": SERVER},
        "spec": {"selector": {"app": SERVER}, "ports": [{"port": PORT}]},
    }
    return pod, service
