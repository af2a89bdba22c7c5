"""Replays one cell: nms / fixed_trips / openvino_compile / N=256."""

from runners.study.replay import replay

replay(
    case='nms',
    variant='fixed_trips',
    backend='openvino_compile',
    workload={'n': 256, 'k': 8, 'batch': None, 'dim': 4, 'dtype': 'float32', 'label_dtype': None, 'positives': 0.5, 'noise': None, 'seed': 0},
    options={'sm': '8.9'},
)
