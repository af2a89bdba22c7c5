"""Replays one cell: balanced_sampler / partition / executorch / N=1000000 noise=inside."""

from runners.study.replay import replay

replay(
    case='balanced_sampler',
    variant='partition',
    backend='executorch',
    workload={'n': 1000000, 'k': 100000, 'batch': None, 'dim': 16, 'dtype': 'float32', 'label_dtype': 'int64', 'positives': 0.5, 'noise': 'inside', 'seed': 0},
    options={'sm': '8.9'},
)
