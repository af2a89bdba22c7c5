"""ONNX files made from exported programs: names, structure, dimensions, randomness."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim

from exporters import onnx_model
from exporters.exporter import Request
from models.balanced_sampler import Nonzero, TopK, TopKShuffled, inputs
from models.case import Workload

pytestmark = pytest.mark.onnxruntime_cpu


def exported(tmp_path, module, *arguments, dynamic_shapes=None, **options):
    request = Request(arguments, "cpu", tmp_path, options=options)
    program = torch.export.export(module.eval(), arguments, dynamic_shapes=dynamic_shapes)
    return onnx_model.export(program, request), request


class Draw(torch.nn.Module):
    def forward(self, x):
        return x + torch.rand(x.shape), torch.randn(x.shape)


class Picky(torch.nn.Module):
    def forward(self, x, unused, scale, nothing=None):
        return {"twice": x * scale, "none": nothing, "rows": x.shape[0]}


def test_the_file_and_its_facts(tmp_path):
    import onnx

    model, request = exported(tmp_path, TopK(5), torch.rand(40, 4), torch.arange(40) % 2)
    assert model.path == tmp_path / "model.onnx"
    graph = onnx.load(model.path).graph
    assert model.inputs == tuple(value.name for value in graph.input)
    assert model.outputs == tuple(value.name for value in graph.output)
    assert request.facts["artifact_bytes"] == model.path.stat().st_size
    assert request.facts["opset"] >= 18
    assert request.facts["onnx_nodes"] == len(graph.node)
    assert request.facts["random_nodes"] == 1
    assert list(request.facts["input_dtypes"].values()) == ["FLOAT", "INT64"]
    assert list(request.facts["output_dtypes"].values()) == ["FLOAT", "INT64"]
    assert request.findings == []


def test_constants_have_no_input_and_no_output(tmp_path):
    shapes = ({0: Dim.AUTO}, None, None)
    model, _ = exported(tmp_path, Picky(), torch.ones(3, 4), torch.ones(2), 2.5, dynamic_shapes=shapes)
    assert [tuple(x.shape) for x in model.flatten((torch.ones(5, 4), torch.ones(2), 2.5), "cpu").values()] == [
        (5, 4),
        (2,),
    ]
    twice = torch.zeros(5, 4)
    values = dict(zip(model.outputs, (twice, torch.tensor(5)), strict=True))
    restored = model.restore(values)
    assert restored == {"twice": twice, "none": None, "rows": 5}
    assert type(restored["rows"]) is int
    low, high = model.bounds[model.inputs[0]][0]
    assert low <= 2
    assert high is None
    assert model.bounds[model.inputs[0]][1] == (4, 4)


def test_arguments_are_handed_over_without_a_copy_unless_strided(tmp_path):
    model, _ = exported(tmp_path, torch.nn.ReLU(), torch.ones(3, 3))
    x = torch.rand(3, 3)
    (taken,) = model.flatten((x,), "cpu").values()
    assert taken.data_ptr() == x.data_ptr()
    (taken,) = model.flatten((x.t(),), "cpu").values()
    assert taken.is_contiguous()
    assert torch.equal(taken, x.t())


def test_a_dimension_that_became_constant_is_found(tmp_path):
    program = torch.export.export(torch.nn.ReLU(), (torch.ones(3, 4),), dynamic_shapes=({0: Dim.AUTO},))
    request = Request((torch.ones(3, 4),), "cpu", tmp_path)
    static = torch.onnx.export(torch.nn.ReLU(), (torch.ones(3, 4),), dynamo=True, verbose=False)
    onnx_model._compare_dimensions(program, static.model.graph, request)
    (finding,) = request.findings
    assert (finding.verdict, finding.code) == ("partial", "SHAPE.specialised")
    assert "shape[0] = 3" in finding.text


def test_a_dimension_asked_dynamic_is_dynamic_in_the_file(tmp_path):
    model, request = exported(tmp_path, torch.nn.ReLU(), torch.ones(3, 4), dynamic_shapes=({0: Dim("n", max=9)},))
    assert request.findings == []
    assert model.bounds[model.inputs[0]][0][1] == 9


@pytest.mark.parametrize("optimize", [True, False])
def test_random_nodes_are_counted(tmp_path, optimize):
    _, request = exported(tmp_path, Draw(), torch.ones(3), optimize=optimize)
    assert request.facts["random_nodes"] == 2
    assert request.findings == []


def test_a_random_node_that_was_folded_is_wrong(tmp_path, monkeypatch):
    import onnx_ir

    def fold(program):
        for node in list(program.model.graph):
            if node.op_type in ("RandomUniform", "RandomUniformLike"):
                constant = onnx_ir.node("Constant", [], {"value": onnx_ir.tensor([0.5, 0.5, 0.5])})
                program.model.graph.insert_before(node, constant)
                node.outputs[0].replace_all_uses_with(constant.outputs[0])

    monkeypatch.setattr(torch.onnx.ONNXProgram, "optimize", fold)
    _, request = exported(tmp_path, Draw(), torch.ones(3))
    assert request.facts["random_nodes"] == 1
    (finding,) = request.findings
    assert (finding.verdict, finding.code) == ("wrong", "RNG.frozen")
    assert finding.text == "1 of 2 random nodes were folded into constants"


def test_noise_as_input_leaves_nothing_random(tmp_path):
    workload = Workload(n=100, k=10, dim=4, dtype="float32", label_dtype="int64", positives=0.5)
    arguments = inputs(workload, 0)
    module = TopKShuffled(10)
    _, request = exported(tmp_path, module, *arguments, module.noise(*arguments))
    assert "random_nodes" not in request.facts


def test_an_operator_without_a_function_raises_the_exporters_own_error(tmp_path):
    class Search(torch.nn.Module):
        def forward(self, x):
            return torch.searchsorted(x, x)

    with pytest.raises(torch.onnx.OnnxExporterError, match="searchsorted"):
        exported(tmp_path, Search(), torch.arange(4.0))


def test_the_variable_sampler_does_not_get_here(tmp_path):
    with pytest.raises(Exception, match="data-dependent"):
        exported(tmp_path, Nonzero(4), torch.rand(40, 4), torch.arange(40) % 2)


def test_nothing_is_printed(tmp_path, capsys):
    exported(tmp_path, torch.nn.ReLU(), torch.ones(3))
    assert capsys.readouterr().out == ""


def test_complex_values_are_pairs_of_reals(tmp_path):
    class Turn(torch.nn.Module):
        def forward(self, x):
            return x * x

    x = torch.tensor([1 + 2j, 3 - 1j])
    model, _ = exported(tmp_path, Turn(), x)
    (taken,) = model.flatten((x,), "cpu").values()
    assert tuple(taken.shape) == (2, 2)
    assert torch.equal(model.restore({model.outputs[0]: taken}), x)
