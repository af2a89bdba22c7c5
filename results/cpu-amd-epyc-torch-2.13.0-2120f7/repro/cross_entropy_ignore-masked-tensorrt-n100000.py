"""Replays one cell: cross_entropy_ignore / masked / tensorrt / N=100000."""

from runners.study.replay import replay

replay(
    case='cross_entropy_ignore',
    variant='masked',
    backend='tensorrt',
    workload={'n': 100000, 'k': None, 'batch': None, 'dim': 16, 'dtype': 'float32', 'label_dtype': 'int64', 'positives': 0.5, 'noise': None, 'seed': 0},
    options={'sm': '8.9'},
)
