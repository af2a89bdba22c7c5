"""Replays one cell: repeat_by_counts / searched / onnxruntime_cuda / N=10000."""

from runners.study.replay import replay

replay(
    case='repeat_by_counts',
    variant='searched',
    backend='onnxruntime_cuda',
    workload={'n': 10000, 'k': None, 'batch': None, 'dim': 16, 'dtype': 'float32', 'label_dtype': 'int64', 'positives': 0.5, 'noise': None, 'seed': 0},
    options={'sm': '8.9'},
)
