"""Replays one cell: masked_mean / where / tvm / N=10000."""

from runners.study.replay import replay

replay(
    case='masked_mean',
    variant='where',
    backend='tvm',
    workload={'n': 10000, 'k': None, 'batch': None, 'dim': 16, 'dtype': 'float32', 'label_dtype': 'bool', 'positives': 0.5, 'noise': None, 'seed': 0},
    options={'sm': '8.9'},
)
