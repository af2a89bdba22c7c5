"""Replays one cell: nms / greedy / onnxruntime_cpu / N=512."""

from runners.study.replay import replay

replay(
    case='nms',
    variant='greedy',
    backend='onnxruntime_cpu',
    workload={'n': 512, 'k': 16, 'batch': None, 'dim': 4, 'dtype': 'float32', 'label_dtype': None, 'positives': 0.5, 'noise': None, 'seed': 0},
    options={'sm': '8.9'},
)
