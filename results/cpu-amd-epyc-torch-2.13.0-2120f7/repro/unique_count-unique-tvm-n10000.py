"""Replays one cell: unique_count / unique / tvm / N=10000."""

from runners.study.replay import replay

replay(
    case='unique_count',
    variant='unique',
    backend='tvm',
    workload={'n': 10000, 'k': None, 'batch': None, 'dim': None, 'dtype': None, 'label_dtype': 'int64', 'positives': 0.5, 'noise': None, 'seed': 0},
    options={'sm': '8.9'},
)
