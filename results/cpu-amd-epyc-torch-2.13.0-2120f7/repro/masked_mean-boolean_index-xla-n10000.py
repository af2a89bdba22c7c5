"""Replays one cell: masked_mean / boolean_index / xla / N=10000."""

from runners.study.replay import replay

replay(
    case='masked_mean',
    variant='boolean_index',
    backend='xla',
    workload={'n': 10000, 'k': None, 'batch': None, 'dim': 16, 'dtype': 'float32', 'label_dtype': 'bool', 'positives': 0.5, 'noise': None, 'seed': 0},
    options={'sm': '8.9'},
)
