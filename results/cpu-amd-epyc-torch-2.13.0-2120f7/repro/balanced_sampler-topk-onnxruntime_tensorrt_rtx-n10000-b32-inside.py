"""Replays one cell: balanced_sampler / topk / onnxruntime_tensorrt_rtx / N=10000 B=32 noise=inside."""

from runners.study.replay import replay

replay(
    case='balanced_sampler',
    variant='topk',
    backend='onnxruntime_tensorrt_rtx',
    workload={'n': 10000, 'k': 1000, 'batch': 32, 'dim': 16, 'dtype': 'float32', 'label_dtype': 'int64', 'positives': 0.5, 'noise': 'inside', 'seed': 0},
    options={'sm': '8.9'},
)
