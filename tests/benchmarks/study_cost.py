"""What a study costs: `python -m tests.benchmarks.study_cost [arguments of runners.all]`.

Prints the seconds of `--list`, then the minutes of the study and the peak of all its processes together, in
proportional set size (pages shared by several are counted once).
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time

import psutil


def main(arguments: list[str]) -> None:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-m", "runners.all", "--list"], check=True, capture_output=True)
    print(f"--list: {time.perf_counter() - began:.1f} s")
    with tempfile.TemporaryDirectory() as output:
        began = time.perf_counter()
        study = subprocess.Popen([sys.executable, "-m", "runners.all", "--output", output, *arguments])
        peak = Peak(study.pid)
        peak.start()
        study.wait()
        minutes = (time.perf_counter() - began) / 60
    print(f"study: {minutes:.1f} minutes, exit code {study.returncode}, peak {peak.bytes / 2**30:.1f} GiB")


class Peak(threading.Thread):
    """The most memory that a process and all that came from it held together."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._pid = pid
        self.bytes = 0

    def run(self) -> None:
        while psutil.pid_exists(self._pid):
            self.bytes = max(self.bytes, sum(map(_memory, _family(self._pid))))
            time.sleep(1)


def _family(pid: int) -> list[psutil.Process]:
    try:
        parent = psutil.Process(pid)
        return [parent, *parent.children(recursive=True)]
    except psutil.Error:
        return []


def _memory(process: psutil.Process) -> int:
    try:
        return int(process.memory_full_info().pss)
    except psutil.Error:
        return 0


if __name__ == "__main__":
    main(sys.argv[1:])
