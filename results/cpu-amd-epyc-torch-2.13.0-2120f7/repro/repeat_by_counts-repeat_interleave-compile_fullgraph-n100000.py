"""Replays one cell: repeat_by_counts / repeat_interleave / compile_fullgraph / N=100000."""

from runners.study.replay import replay

replay(
    case='repeat_by_counts',
    variant='repeat_interleave',
    backend='compile_fullgraph',
    workload={'n': 100000, 'k': None, 'batch': None, 'dim': 16, 'dtype': 'float32', 'label_dtype': 'int64', 'positives': 0.5, 'noise': None, 'seed': 0},
    options={'sm': '8.9'},
)
