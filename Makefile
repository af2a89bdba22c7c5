# Two commands: `make study` and `make test`. Both set up .venv by `make install`, which does nothing twice.

PYTHON ?= python3
STUDY ?=

.PHONY: study study-gpu test install clean

study: install
	.venv/bin/python -m runners.all $(STUDY)

study-gpu: install
	.venv/bin/python -m runners.all --profile gpu $(STUDY)

test: install
	.venv/bin/python -m pytest

install: .venv/installed

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	.venv/bin/python -m pip install --quiet --constraint constraints.txt torch
	.venv/bin/python -m pip install --quiet --constraint constraints.txt --editable '.[engines,test]'
	touch .venv/installed

clean:
	rm -rf .venv
