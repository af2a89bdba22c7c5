"""Replays one cell: score_threshold / nonzero / tensorrt / N=100000."""

from runners.study.replay import replay

replay(
    case='score_threshold',
    variant='nonzero',
    backend='tensorrt',
    workload={'n': 100000, 'k': 10000, 'batch': None, 'dim': 4, 'dtype': 'float32', 'label_dtype': None, 'positives': 0.5, 'noise': None, 'seed': 0},
    options={'sm': '8.9'},
)
