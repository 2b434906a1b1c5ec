"""Official releases: the file, its checksum, and the program in it.

A host without access to a release page must not wait for a connection that never comes: a server has three seconds
to answer, and one that did not is not asked again.
"""

import hashlib
import http.client
import queue
import shutil
import tarfile
import threading
import urllib.request
import zipfile
from pathlib import Path, PurePosixPath
from typing import Final
from urllib.parse import urlsplit

from lab.tools.catalogue import Tool, ToolError
from lab.tools.progress import Progress, Step

ANSWER_SECONDS: Final = 3.0
_STALL_SECONDS: Final = 30.0
_CHUNK: Final = 1 << 18
_HEX_DIGITS: Final = 64
_LONGEST_LIST: Final = 1 << 20
# urllib raises OSError for most of what can go wrong, and these kinds besides.
_NETWORK_ERRORS: Final = (OSError, http.client.HTTPException, ValueError)
_silent_servers: set[str] = set()


class UnavailableError(Exception):
    """The release cannot be had right now; it has to be built."""


def fetch(tool: Tool, folder: Path, progress: Progress) -> Path:
    """Download a release into the folder and return the program in it.

    Raises UnavailableError, or ToolError for a file that is not what its publisher says.
    """
    if tool.download is None:
        raise UnavailableError("there is no release for this platform")
    url = tool.download.url
    archive, program = folder / PurePosixPath(url).name, folder / f"{tool.name}.downloaded"
    with progress.step(f"downloading {tool.name} {tool.version}") as step:
        try:
            expected_sum = tool.download.sha256 or listed_sum(_text(tool.download.sums_url), archive.name)
            actual_sum = _save(url, archive, step)
        except _NETWORK_ERRORS as error:
            raise UnavailableError(f"{urlsplit(url).netloc}: {error}") from error
        if actual_sum != expected_sum:
            raise ToolError(
                f"{url} has SHA-256 {actual_sum}, and its publisher says {expected_sum}; CI=1 builds it from source"
            )
        _extract(archive, tool.download.member, program)
    return program


def listed_sum(text: str, file: str) -> str:
    """Find the sum for a file: alone, or in lines of sums and names; raises UnavailableError."""
    for line in text.splitlines():
        digits, _, name = line.strip().partition(" ")
        # sha256sum marks binary mode with a star, and some publishers sum files in a folder of theirs.
        if len(digits) == _HEX_DIGITS and PurePosixPath(name.strip().lstrip("*")).name in ("", file):
            return digits.lower()
    raise UnavailableError(f"no checksum for {file} is listed")


def _text(url: str) -> str:
    with _open(url) as reply:
        return reply.read(_LONGEST_LIST).decode(errors="replace")


def _open(url: str) -> http.client.HTTPResponse:
    """Open an address; in a thread, because looking up a name takes no time limit."""
    server = urlsplit(url).netloc
    if server in _silent_servers:
        raise UnavailableError(f"{server} did not answer before")
    answers: queue.SimpleQueue[http.client.HTTPResponse | Exception] = queue.SimpleQueue()

    def ask() -> None:
        try:
            answers.put(urllib.request.urlopen(url, timeout=_STALL_SECONDS))
        except _NETWORK_ERRORS as error:
            answers.put(error)

    threading.Thread(target=ask, daemon=True).start()
    try:
        answer = answers.get(timeout=ANSWER_SECONDS)
    except queue.Empty:
        _silent_servers.add(server)
        raise UnavailableError(f"{server} did not answer within {ANSWER_SECONDS:.0f} s") from None
    if isinstance(answer, Exception):
        raise answer
    return answer


def _save(url: str, path: Path, step: Step) -> str:
    """Save what an address has to a file, and return its SHA-256 in hexadecimal."""
    digest, size = hashlib.sha256(), 0
    with _open(url) as reply, path.open("wb") as file:
        total = int(reply.headers.get("Content-Length") or 0)
        while chunk := reply.read(_CHUNK):
            digest.update(chunk)
            file.write(chunk)
            size += len(chunk)
            step.note(f"{size >> 20} MB")
    if total and size != total:
        raise UnavailableError(f"the download broke off after {size} of {total} bytes")
    return digest.hexdigest()


def _extract(archive: Path, member: str, program: Path) -> None:
    try:
        if not member:
            archive.replace(program)
        elif archive.suffix == ".zip":
            with zipfile.ZipFile(archive) as zip_file, zip_file.open(member) as source, program.open("wb") as target:
                shutil.copyfileobj(source, target)
        else:
            with tarfile.open(archive) as tar, program.open("wb") as target:
                names = {name.removeprefix("./"): name for name in tar.getnames()}
                source_file = tar.extractfile(names[member])
                shutil.copyfileobj(source_file, target) if source_file else None
    except (KeyError, tarfile.TarError, zipfile.BadZipFile, EOFError) as error:
        raise ToolError(
            f"there is no {member} in {archive.name} ({error}): correct hack/lab/tools/tools.toml"
        ) from error
