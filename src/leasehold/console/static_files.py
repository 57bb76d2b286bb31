"""The console's own files: one style sheet, modules and icons. Nothing is loaded from elsewhere."""

from hashlib import sha256
from importlib.resources import files

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_FOR_EVER = "public, max-age=31536000, immutable"


class StaticFiles:
    """All files, read once. Their address has a hash of them, so that a browser may keep them for ever."""

    def __init__(self) -> None:
        folder = files("leasehold.console") / "static"
        self._contents = {each.name: each.read_bytes() for each in folder.iterdir() if each.is_file()}
        joined = b"".join(name.encode() + content for name, content in sorted(self._contents.items()))
        self.version = sha256(joined).hexdigest()[:12]

    async def answer(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in self._contents:
            raise HTTPException(404)
        kind = _TYPES[f".{name.rpartition('.')[2]}"]
        kept = _FOR_EVER if request.path_params["version"] == self.version else "no-cache"
        return Response(self._contents[name], 200, {"Cache-Control": kept}, kind)
