"""Replays one cell: score_threshold / nonzero / eager / N=1000."""

from runners.study.replay import replay

replay(
    case='score_threshold',
    variant='nonzero',
    backend='eager',
    workload={'n': 1000, 'k': 100, 'batch': None, 'dim': 4, 'dtype': 'float32', 'label_dtype': None, 'positives': 0.5, 'noise': None, 'seed': 0},
    options={'sm': '8.9'},
)
