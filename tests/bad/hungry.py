"""Eats memory until it is stopped."""

import time

from runners.runner import Engine


def probe(request):
    pass


def load(source, request):
    eaten = []
    while True:
        eaten.append(bytearray(64 << 20))
        time.sleep(0.02)
    return Engine(source)
