"""Replays one cell: balanced_sampler / topk_shuffled / onnxruntime_tensorrt / N=100000 noise=inside."""

from runners.study.replay import replay

replay(
    case='balanced_sampler',
    variant='topk_shuffled',
    backend='onnxruntime_tensorrt',
    workload={'n': 100000, 'k': 10000, 'batch': None, 'dim': 16, 'dtype': 'float32', 'label_dtype': 'int64', 'positives': 0.5, 'noise': 'inside', 'seed': 0},
    options={'sm': '8.9'},
)
