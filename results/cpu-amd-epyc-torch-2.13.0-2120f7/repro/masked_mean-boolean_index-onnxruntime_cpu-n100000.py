"""Replays one cell: masked_mean / boolean_index / onnxruntime_cpu / N=100000."""

from runners.study.replay import replay

replay(
    case='masked_mean',
    variant='boolean_index',
    backend='onnxruntime_cpu',
    workload={'n': 100000, 'k': None, 'batch': None, 'dim': 16, 'dtype': 'float32', 'label_dtype': 'bool', 'positives': 0.5, 'noise': None, 'seed': 0},
    options={'sm': '8.9'},
)
