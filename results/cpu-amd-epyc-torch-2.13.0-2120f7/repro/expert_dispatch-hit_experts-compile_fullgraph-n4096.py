"""Replays one cell: expert_dispatch / hit_experts / compile_fullgraph / N=4096."""

from runners.study.replay import replay

replay(
    case='expert_dispatch',
    variant='hit_experts',
    backend='compile_fullgraph',
    workload={'n': 4096, 'k': 1024, 'batch': None, 'dim': 16, 'dtype': 'float32', 'label_dtype': 'int64', 'positives': 0.5, 'noise': None, 'seed': 0},
    options={'sm': '8.9'},
)
