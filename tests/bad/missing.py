"""Its package is not here."""

from exporters.exporter import Unavailable


def probe(request):
    raise Unavailable("ENV.no_package", "No module named 'missing'", "pip install missing")


def load(source, request):
    raise AssertionError("a runner whose probe failed must not be loaded")
