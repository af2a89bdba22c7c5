"""OpenVINO for real: its three roads, and its torch.compile backend, which is quiet about what it leaves out."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from exporters import exported_program, openvino_model, traced_module
from exporters.exporter import Request
from runners import openvino
from tests.runners.engines import BrainFloat, PlainNonzero, Scaled, assert_as_eager, go, scaled_inputs


class Refusing(nn.Module):
    """No road takes it: export cannot decide, the tracer may not."""

    def forward(self, rows):
        if torch.compiler.is_compiling() or torch.jit.is_tracing():
            raise ValueError("not while I am watched")
        return rows


class Decided(nn.Module):
    """Only the tracer takes it: a Python decision on a value."""

    def forward(self, rows):
        return rows * 2 if rows.sum() > 0 else rows - 1


@pytest.mark.openvino
@pytest.mark.parametrize(
    ("module", "inputs"),
    [(Scaled(), scaled_inputs()), (BrainFloat(), (torch.rand(5).bfloat16(),)), (PlainNonzero(), (torch.rand(9),))],
    ids=["leaves", "bfloat16", "nonzero"],
)
def test_as_eager(module, inputs, tmp_path):
    engine, request = go("openvino", module, inputs, tmp_path)
    assert_as_eager(engine(*inputs), module, inputs)
    assert request.facts["road"] == "exported_program"


@pytest.mark.openvino
def test_the_roads_are_separate_facts(tmp_path):
    rows = torch.rand(9)
    module = Decided()
    engine, request = go("openvino", module, (rows,), tmp_path)
    roads = request.facts["roads"]
    assert roads["traced"] == "converted"
    assert "GuardOnDataDependentSymNode" in roads["exported_program"]
    assert request.facts["road"] == "traced"
    assert request.facts["trace_warnings"], "the tracer said what it froze"
    assert_as_eager(engine(rows), module, (rows,))


@pytest.mark.openvino
def test_when_no_road_takes_it_the_words_of_all_are_kept(tmp_path):
    with pytest.raises(openvino_model.NoRoad) as error:
        go("openvino", Refusing(), (torch.rand(3),), tmp_path)
    assert str(error.value).count("not while I am watched") == 3
    assert all(f"[{road}]" in str(error.value) for road in openvino_model.ROADS)


@pytest.mark.openvino
def test_a_further_size_of_the_same_module_does_not_explore_again(tmp_path):
    module = BrainFloat()
    for size in (3, 4):
        directory = tmp_path / str(size)
        directory.mkdir()
        _, request = go("openvino", module, (torch.rand(size),), directory)
    assert list(request.facts["roads"]) == ["exported_program"]


@pytest.mark.openvino
def test_an_artifact_of_another_exporter_has_one_road(tmp_path):
    rows = torch.rand(4)
    for exporter, road in ((exported_program, "exported_program"), (traced_module, "traced")):
        request = Request((rows,), "cpu", tmp_path)
        models = openvino_model.export(exporter.export(BrainFloat(), request), request)
        assert list(models) == [road]
        torch.testing.assert_close(openvino.load(models, request)(rows), rows * 2 + 1)


@pytest.mark.openvino
def test_another_shape_is_refused_unless_it_was_asked_dynamic(tmp_path):
    engine, _ = go("openvino", BrainFloat(), (torch.rand(4),), tmp_path)
    with pytest.raises(RuntimeError, match="shape"):
        engine(torch.rand(5))
    request = Request((torch.rand(4),), "cpu", tmp_path, dynamic_shapes=({0: "rows"},))
    models = openvino_model.export(exported_program.export(BrainFloat(), request), request)
    rows = torch.rand(5)
    torch.testing.assert_close(openvino.load(models, request)(rows), rows * 2 + 1)


@pytest.mark.openvino_compile
def test_compile_reports_what_stays_in_torch(tmp_path):
    inputs = (torch.rand(5).bfloat16(),)
    engine, request = go("openvino_compile", BrainFloat(), inputs, tmp_path)
    assert_as_eager(engine(*inputs), BrainFloat(), inputs)
    engine.inspect()
    (finding,) = request.findings
    assert (finding.verdict, finding.code) == ("partial", "FALLBACK.undelegated")
    assert "2 of 2 operators ran outside OpenVINO" in finding.text
    assert "OpenVINO execution failed with torch.bfloat16" in finding.text, "its own debug message is the reason"


@pytest.mark.openvino_compile
def test_compile_of_a_whole_graph_leaves_nothing(tmp_path):
    inputs = scaled_inputs()
    engine, request = go("openvino_compile", Scaled(), inputs, tmp_path)
    assert_as_eager(engine(*inputs), Scaled(), inputs)
    engine.inspect()
    assert request.findings == []
    assert request.facts["operators_delegated"] > 2


class Corners(nn.Module):
    """Each number that is read cuts the graph, and from the second call on is a symbol in what follows."""

    def forward(self, box):
        width, height = int(box[2] - box[0]), int(box[3] - box[1])
        return box.new_zeros(1) + (width + height)


@pytest.mark.openvino_compile
def test_graphs_that_were_partitioned_anew_are_looked_into(tmp_path):
    engine, request = go("openvino_compile", Corners(), (torch.tensor([0, 0, 3, 4]),), tmp_path)
    for box in ([5, 5, 15, 25], [0, 10, 100, 20]):
        assert_as_eager(engine(torch.tensor(box)), Corners(), (torch.tensor(box),))
    engine.inspect()
    assert request.facts["operators_delegated"] > 0


@pytest.mark.openvino
def test_torch_compile_takes_the_partition_sampler_with_noise_as_input():
    """It gives every size a symbol; one that only meets products of others has no source, an IndexError."""
    import openvino.torch  # noqa: F401

    from models.partition import PartitionSampler

    sampler, features, labels = PartitionSampler(100), torch.randn(1000, 4), torch.arange(1000) % 3
    noise = sampler.noise(features, labels)
    torch._dynamo.reset()
    compiled = torch.compile(sampler, backend="openvino")
    with torch.no_grad():
        pairs = zip(compiled(features, labels, noise), sampler(features, labels, noise), strict=True)
        assert all(torch.equal(got, want) for got, want in pairs)


@pytest.mark.openvino
@pytest.mark.parametrize("noise_is_given", [False, True])
def test_the_partition_sampler_draws_anew(noise_is_given, tmp_path):
    """What OpenVINO works out from drawn numbers at compile time must not be the sample."""
    from models.partition import PartitionSampler

    sampler, features, labels = PartitionSampler(10), torch.arange(100.0).unsqueeze(1), torch.arange(100) % 2
    given = (sampler.noise(features, labels),) if noise_is_given else ()
    engine, _ = go("openvino", sampler.eval(), (features, labels, *given), tmp_path)
    draws = set()
    for _ in range(8):
        noise = (sampler.noise(features, labels),) if noise_is_given else ()
        rows, row_labels = engine(features, labels, *noise)
        assert len(set(rows.flatten().tolist())) == 10 and int(row_labels.sum()) == 5
        draws.add(tuple(rows.flatten().tolist()))
    assert len(draws) == 8
