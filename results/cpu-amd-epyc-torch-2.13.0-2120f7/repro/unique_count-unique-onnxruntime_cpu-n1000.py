"""Replays one cell: unique_count / unique / onnxruntime_cpu / N=1000."""

from runners.study.replay import replay

replay(
    case='unique_count',
    variant='unique',
    backend='onnxruntime_cpu',
    workload={'n': 1000, 'k': None, 'batch': None, 'dim': None, 'dtype': None, 'label_dtype': 'int64', 'positives': 0.5, 'noise': None, 'seed': 0},
    options={'sm': '8.9'},
)
