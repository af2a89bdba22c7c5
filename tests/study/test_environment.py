from runners.study import environment

EPYC = """processor\t: 0
cpu family\t: 25
model\t\t: 17
model name\t: AMD EPYC
flags\t\t: fpu sse2 avx avx2 avx512f avx512_bf16
"""


def test_processors_of_one_name_are_told_apart() -> None:
    assert environment.processor(EPYC) == ("AMD EPYC", "family 25, model 17, avx2 avx512f avx512_bf16")
    assert environment.processor(EPYC.replace(" avx512_bf16", ""))[1] == "family 25, model 17, avx2 avx512f"


def test_a_processor_without_a_model_is_told_by_its_instructions() -> None:
    name, kind = environment.processor("processor : 0\nFeatures : fp asimd bf16\n")
    assert name and kind == "asimd bf16"


def test_a_kernel_that_tells_nothing_leaves_the_platforms_name() -> None:
    name, kind = environment.processor("")
    assert name and kind == ""


def test_the_environments_id_differs_with_the_instructions(monkeypatch) -> None:
    found = set()
    for text in (EPYC, EPYC.replace(" avx512_bf16", ""), EPYC.replace("17", "1")):
        monkeypatch.setattr(environment, "_cpuinfo", lambda text=text: text)
        found.add(environment.detect({}, None).id)
    assert len(found) == 3
