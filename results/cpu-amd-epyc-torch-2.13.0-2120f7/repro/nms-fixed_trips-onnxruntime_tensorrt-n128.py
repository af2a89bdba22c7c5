"""Replays one cell: nms / fixed_trips / onnxruntime_tensorrt / N=128."""

from runners.study.replay import replay

replay(
    case='nms',
    variant='fixed_trips',
    backend='onnxruntime_tensorrt',
    workload={'n': 128, 'k': 4, 'batch': None, 'dim': 4, 'dtype': 'float32', 'label_dtype': None, 'positives': 0.5, 'noise': None, 'seed': 0},
    options={'sm': '8.9'},
)
