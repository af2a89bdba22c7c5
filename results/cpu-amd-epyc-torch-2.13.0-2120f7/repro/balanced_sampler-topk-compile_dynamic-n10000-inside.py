"""Replays one cell: balanced_sampler / topk / compile_dynamic / N=10000 noise=inside."""

from runners.study.replay import replay

replay(
    case='balanced_sampler',
    variant='topk',
    backend='compile_dynamic',
    workload={'n': 10000, 'k': 1000, 'batch': None, 'dim': 16, 'dtype': 'float32', 'label_dtype': 'int64', 'positives': 0.5, 'noise': 'inside', 'seed': 0},
    options={'sm': '8.9'},
)
