"""Answers rightly, says that a part ran elsewhere, and raises when it is asked what did."""

from exporters.exporter import Finding
from runners.runner import Engine


def probe(request):
    pass


def load(source, request):
    request.findings.append(Finding("partial", "FALLBACK.provider", "1 of 2 nodes ran in eager"))

    def inspect():
        raise AttributeError("no 'graph' in this version")

    return Engine(source, inspect)
