"""Property tests measure answers, not time: no deadline per example."""

from hypothesis import settings

settings.register_profile("models", deadline=None, max_examples=40)
settings.load_profile("models")
