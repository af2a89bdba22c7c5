"""Replays one cell: cross_entropy_ignore / ignore_index / torch_tensorrt / N=1000."""

from runners.study.replay import replay

replay(
    case='cross_entropy_ignore',
    variant='ignore_index',
    backend='torch_tensorrt',
    workload={'n': 1000, 'k': None, 'batch': None, 'dim': 16, 'dtype': 'float32', 'label_dtype': 'int64', 'positives': 0.5, 'noise': None, 'seed': 0},
    options={'sm': '8.9'},
)
