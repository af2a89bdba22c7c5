"""Replays one cell: balanced_sampler / nonzero / xla / N=1000000 noise=inside."""

from runners.study.replay import replay

replay(
    case='balanced_sampler',
    variant='nonzero',
    backend='xla',
    workload={'n': 1000000, 'k': 100000, 'batch': None, 'dim': 16, 'dtype': 'float32', 'label_dtype': 'int64', 'positives': 0.5, 'noise': 'inside', 'seed': 0},
    options={'sm': '8.9'},
)
