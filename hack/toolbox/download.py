"""Official releases: is the server there, what should the file be, and the file itself.

The question "is it there" is asked for all tools at once and answered within three seconds: a host without
access to a release page must not wait for a connection that never comes. It is answered by really fetching
the checksum, so a proxy that refuses or a page that moved counts as "not there" as well.
"""

import hashlib
import http.client
import threading
import time
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from toolbox import archive
from toolbox.catalogue import Download, Tool
from toolbox.errors import BadChecksum
from toolbox.progress import Progress, Step

DECISION_SECONDS = 3.0
# Longer than anybody waits for the answer: it only ends the thread that asked.
INQUIRY_SECONDS = 3 * DECISION_SECONDS
STALL_SECONDS = 30.0
CHUNK = 1 << 18
HEX_DIGITS = 64
# A list of checksums is never as long as this.
MOST_BYTES = 1 << 20
# urllib raises OSError for most of what can go wrong, and these two kinds besides.
NETWORK_ERRORS = (OSError, http.client.HTTPException, ValueError)


class Unavailable(Exception):
    """The release cannot be had right now; something else has to do."""


@dataclass(frozen=True)
class Offer:
    """A release that was there a moment ago."""

    download: Download
    sha256: str


def offers(tools: Sequence[Tool], *, environ: Mapping[str, str], progress: Progress) -> dict[str, Offer]:
    """Return what can be downloaded, by tool name; says within three seconds which servers cannot be reached."""
    downloads = {tool.name: tool.download for tool in tools if tool.download}
    if not downloads:
        return {}
    if environ.get("CI"):
        progress.say("CI is set: official releases are not downloaded")
        return {}
    inquiries = {name: Inquiry(download) for name, download in downloads.items()}
    deadline = time.monotonic() + DECISION_SECONDS
    for inquiry in inquiries.values():
        inquiry.join(max(0.0, deadline - time.monotonic()))
    answers = {name: inquiry.answer() for name, inquiry in inquiries.items()}
    for why in dict.fromkeys(answer for answer in answers.values() if isinstance(answer, str)):
        progress.say(f"{why}; not downloading from there")
    return {name: answer for name, answer in answers.items() if isinstance(answer, Offer)}


class Inquiry(threading.Thread):
    """Asks for one checksum. A thread, because looking up a name cannot be given a time limit."""

    def __init__(self, download: Download) -> None:
        super().__init__(daemon=True)
        self._download = download
        self._host = urlsplit(download.url).netloc
        self._answer: Offer | str = f"{self._host} did not answer within {DECISION_SECONDS:.0f} s"
        self.start()

    def answer(self) -> Offer | str:
        """Return the offer, or why there is none; final once asked for, however late the server is."""
        return self._answer

    def run(self) -> None:
        """Fetch the checksum, or where we have it already only look whether the release is there."""
        url = self._download.checksum_url or self._download.url
        try:
            with urllib.request.urlopen(url, timeout=INQUIRY_SECONDS) as reply:
                text = "" if self._download.sha256 else reply.read(MOST_BYTES).decode(errors="replace")
            self._answer = Offer(self._download, self._download.sha256 or listed_checksum(text, self._download.file))
        except Unavailable as error:
            self._answer = f"{self._download.checksum_url}: {error}"
        except NETWORK_ERRORS as error:
            self._answer = f"{self._host} cannot be reached ({error})"


def listed_checksum(text: str, file: str) -> str:
    """Find the sum for a file in any of the usual forms: alone, or in lines of sums and names; raises Unavailable."""
    for line in text.splitlines():
        digits, _, name = line.strip().partition(" ")
        # sha256sum marks binary mode with a star, and some publishers sum files in a folder of theirs.
        if len(digits) == HEX_DIGITS and PurePosixPath(name.strip().lstrip("*")).name in ("", file):
            return digits.lower()
    raise Unavailable(f"no checksum for {file} is listed")


def fetch(tool: Tool, offer: Offer, folder: Path, progress: Progress) -> Path:
    """Download a release into the folder and return the program in it; raises Unavailable or BadChecksum."""
    packed = folder / offer.download.file
    with progress.step(f"{tool}: downloading {offer.download.url}") as step:
        try:
            found = save(offer.download.url, packed, step)
        except NETWORK_ERRORS as error:
            raise Unavailable(f"the download broke off ({error})") from error
        if found != offer.sha256:
            raise BadChecksum(
                f"{tool}: {offer.download.url} has SHA-256 {found}, and its publisher says {offer.sha256}",
                advice="somebody between you and the publisher changes what you download, or the mirror is broken: "
                "find out which; CI=1 builds from source instead",
            )
    program = folder / f"{tool.name}.downloaded"
    archive.extract(packed, offer.download.member, program)
    program.chmod(0o755)
    return program


def save(url: str, path: Path, step: Step) -> str:
    """Save what an address has to a file, and return its SHA-256 in hexadecimal."""
    digest, size = hashlib.sha256(), 0
    with urllib.request.urlopen(url, timeout=STALL_SECONDS) as reply, path.open("wb") as file:
        total = int(reply.headers.get("Content-Length") or 0)
        while chunk := reply.read(CHUNK):
            digest.update(chunk)
            file.write(chunk)
            size += len(chunk)
            step.note(f"{size >> 20} of {total >> 20} MB" if total else f"{size >> 20} MB")
    if total and size != total:
        raise Unavailable(f"the download broke off after {size} of {total} bytes")
    return digest.hexdigest()
