"""Replays one cell: expert_dispatch / fetched / compile_fullgraph / N=256."""

from runners.study.replay import replay

replay(
    case='expert_dispatch',
    variant='fetched',
    backend='compile_fullgraph',
    workload={'n': 256, 'k': 64, 'batch': None, 'dim': 16, 'dtype': 'float32', 'label_dtype': 'int64', 'positives': 0.5, 'noise': None, 'seed': 0},
    options={'sm': '8.9'},
)
