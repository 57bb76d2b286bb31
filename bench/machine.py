"""The machine, without its name."""

import os
import platform
import tempfile
from pathlib import Path

import psutil


def described() -> dict[str, str]:
    memory = psutil.virtual_memory().total / 2**30
    return {
        "processor": f"{os.cpu_count()} cores, {_processor()}",
        "memory": f"{memory:.0f} GB",
        "disk": f"{_file_system(Path(tempfile.gettempdir()))} for the embedded Postgres",
        "system": f"{platform.system()} {platform.release().partition('-')[0]} {platform.machine()}",
        "python": platform.python_version(),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown"
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else "unknown"


def _file_system(folder: Path) -> str:
    mounts = [part for part in psutil.disk_partitions(all=True) if folder.is_relative_to(part.mountpoint)]
    return str(max(mounts, key=lambda part: len(part.mountpoint)).fstype) if mounts else "an unknown file system"
