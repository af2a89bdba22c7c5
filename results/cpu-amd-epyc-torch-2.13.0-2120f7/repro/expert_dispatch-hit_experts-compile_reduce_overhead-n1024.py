"""Replays one cell: expert_dispatch / hit_experts / compile_reduce_overhead / N=1024."""

from runners.study.replay import replay

replay(
    case='expert_dispatch',
    variant='hit_experts',
    backend='compile_reduce_overhead',
    workload={'n': 1024, 'k': 256, 'batch': None, 'dim': 16, 'dtype': 'float32', 'label_dtype': 'int64', 'positives': 0.5, 'noise': None, 'seed': 0},
    options={'sm': '8.9'},
)
