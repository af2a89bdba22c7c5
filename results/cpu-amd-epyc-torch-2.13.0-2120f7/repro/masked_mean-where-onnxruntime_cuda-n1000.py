"""Replays one cell: masked_mean / where / onnxruntime_cuda / N=1000."""

from runners.study.replay import replay

replay(
    case='masked_mean',
    variant='where',
    backend='onnxruntime_cuda',
    workload={'n': 1000, 'k': None, 'batch': None, 'dim': 16, 'dtype': 'float32', 'label_dtype': 'bool', 'positives': 0.5, 'noise': None, 'seed': 0},
    options={'sm': '8.9'},
)
