"""Replays one cell: unique_count / sorted_runs / onnxruntime_cuda / N=10000."""

from runners.study.replay import replay

replay(
    case='unique_count',
    variant='sorted_runs',
    backend='onnxruntime_cuda',
    workload={'n': 10000, 'k': None, 'batch': None, 'dim': None, 'dtype': None, 'label_dtype': 'int64', 'positives': 0.5, 'noise': None, 'seed': 0},
    options={'sm': '8.9'},
)
