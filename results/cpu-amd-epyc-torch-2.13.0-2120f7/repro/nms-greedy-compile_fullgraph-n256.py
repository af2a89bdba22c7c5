"""Replays one cell: nms / greedy / compile_fullgraph / N=256."""

from runners.study.replay import replay

replay(
    case='nms',
    variant='greedy',
    backend='compile_fullgraph',
    workload={'n': 256, 'k': 8, 'batch': None, 'dim': 4, 'dtype': 'float32', 'label_dtype': None, 'positives': 0.5, 'noise': None, 'seed': 0},
    options={'sm': '8.9'},
)
