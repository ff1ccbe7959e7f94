"""SQLite files that are filled once, and copied by every test that begins with the same rows.

A copy lies beside the installed packages under a digest of all code that could fill it otherwise, so it serves other
processes and later runs too, on the same day.
"""

import hashlib
import shutil
import sqlite3
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.process import ROOT

FOLDER = Path(sys.prefix) / "prepared-databases"
CODE = ("benchmarks/site", "demo_project", "django_mcp", "tests")
A_DAY = 24 * 60 * 60.0


def prepare(file: Path, name: str, fill: Callable[[Path], object]) -> None:
    """Make *file* a database that *fill* has filled.

    Args:
        file: which is not there yet.
        name: of what is in it; everything besides the code that *fill* depends on.
        fill: makes a database at a path, once for each state of the code and each day.
    """
    digest = hashlib.sha256(f"{name}\0{state_of_code()}\0{datetime.now(UTC).date()}".encode()).hexdigest()[:24]
    prepared = FOLDER / f"{digest}.sqlite3"
    if not prepared.exists():
        FOLDER.mkdir(exist_ok=True)
        remove_old()
        with TemporaryDirectory(dir=FOLDER) as folder:  # another process or thread may be at the same
            fresh = Path(folder, prepared.name)
            fill(fresh)
            with closing(sqlite3.connect(fresh)) as connection:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            fresh.rename(prepared)
    shutil.copyfile(prepared, file)


def remove_old() -> None:
    """What nobody will copy any more."""
    for each in FOLDER.glob("*.sqlite3"):
        with suppress(FileNotFoundError):
            if each.stat().st_mtime < time.time() - A_DAY:
                each.unlink()


@cache
def state_of_code() -> str:
    """A digest of the package, its sites and tests, and of the names of installed packages with their versions."""
    digest = hashlib.sha256(sys.version.encode())
    for name in sorted(each.name for each in Path(sysconfig.get_path("purelib")).glob("*.dist-info")):
        digest.update(f"{name}\0".encode())
    for file in sorted(files_of_code()):
        digest.update(f"{file.relative_to(ROOT)}\0".encode() + file.read_bytes())
    return digest.hexdigest()


def files_of_code() -> Iterator[Path]:
    for folder in CODE:
        yield from (ROOT / folder).rglob("*.py")
    yield from (each for each in (ROOT / "demo_project" / "travel" / "data").rglob("*") if each.is_file())
