"""Replays one cell: score_threshold / masked_topk / torch_tensorrt / N=1000."""

from runners.study.replay import replay

replay(
    case='score_threshold',
    variant='masked_topk',
    backend='torch_tensorrt',
    workload={'n': 1000, 'k': 100, 'batch': None, 'dim': 4, 'dtype': 'float32', 'label_dtype': None, 'positives': 0.5, 'noise': None, 'seed': 0},
    options={'sm': '8.9'},
)
