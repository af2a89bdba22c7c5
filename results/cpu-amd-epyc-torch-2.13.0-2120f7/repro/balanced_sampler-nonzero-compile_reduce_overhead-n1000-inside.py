"""Replays one cell: balanced_sampler / nonzero / compile_reduce_overhead / N=1000 noise=inside."""

from runners.study.replay import replay

replay(
    case='balanced_sampler',
    variant='nonzero',
    backend='compile_reduce_overhead',
    workload={'n': 1000, 'k': 100, 'batch': None, 'dim': 16, 'dtype': 'float32', 'label_dtype': 'int64', 'positives': 0.5, 'noise': 'inside', 'seed': 0},
    options={'sm': '8.9'},
)
