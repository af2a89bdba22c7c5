"""Replays one cell: ragged_pad / gathered / xla / N=1000 B=32."""

from runners.study.replay import replay

replay(
    case='ragged_pad',
    variant='gathered',
    backend='xla',
    workload={'n': 1000, 'k': 125, 'batch': 32, 'dim': 16, 'dtype': 'float32', 'label_dtype': 'int64', 'positives': 0.5, 'noise': None, 'seed': 0},
    options={'sm': '8.9'},
)
