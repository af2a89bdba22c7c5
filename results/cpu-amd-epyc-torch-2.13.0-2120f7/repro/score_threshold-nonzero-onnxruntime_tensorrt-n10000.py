"""Replays one cell: score_threshold / nonzero / onnxruntime_tensorrt / N=10000."""

from runners.study.replay import replay

replay(
    case='score_threshold',
    variant='nonzero',
    backend='onnxruntime_tensorrt',
    workload={'n': 10000, 'k': 1000, 'batch': None, 'dim': 4, 'dtype': 'float32', 'label_dtype': None, 'positives': 0.5, 'noise': None, 'seed': 0},
    options={'sm': '8.9'},
)
