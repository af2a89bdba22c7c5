"""Replays one cell: balanced_sampler / nonzero / onnxruntime_tensorrt / N=1000 B=32 noise=inside."""

from runners.study.replay import replay

replay(
    case='balanced_sampler',
    variant='nonzero',
    backend='onnxruntime_tensorrt',
    workload={'n': 1000, 'k': 100, 'batch': 32, 'dim': 16, 'dtype': 'float32', 'label_dtype': 'int64', 'positives': 0.5, 'noise': 'inside', 'seed': 0},
    options={'sm': '8.9'},
)
