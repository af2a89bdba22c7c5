"""Refuses to compile, with words of its own and a cause."""


def probe(request):
    pass


def load(source, request):
    try:
        raise MemoryError("std::bad_alloc")
    except MemoryError as error:
        raise RuntimeError("the engine could not be built") from error
