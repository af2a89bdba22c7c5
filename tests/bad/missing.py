"""Its package is not here."""

from pathlib import Path

from exporters.exporter import Unavailable


def probe(request):
    raise Unavailable("ENV.no_package", f"No module named 'missing' in {Path(__file__).parent}", "pip install missing")


def load(source, request):
    raise AssertionError("a runner whose probe failed must not be loaded")
