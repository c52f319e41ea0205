#!/usr/bin/env python3
"""Makes python.safetensors: a small file written by the reference implementation.

    pip install numpy safetensors==0.8.0 && python make_safetensors.py
"""
import os

import numpy as np
from safetensors import TensorSpec, serialize_file

HERE = os.path.dirname(os.path.abspath(__file__))


ARRAYS = {
    "weight": ("float32", np.arange(6, dtype=np.float32).reshape(2, 3) / 4),
    "half": ("float16", np.array([1, -2, 0.5], dtype=np.float16)),
    "brain": ("bfloat16", np.array([0x3F80, 0xC000], dtype=np.uint16)),  # 1, -2
    "ids": ("int32", np.array([[-1], [7]], dtype=np.int32)),
    "step": ("int64", np.array(1 << 40, dtype=np.int64)),
    "bytes": ("uint8", np.array([3, 1, 4], dtype=np.uint8)),
    "none": ("float32", np.zeros((0, 5), dtype=np.float32)),
    'lớp/0 "q"': ("float32", np.array([2.5], dtype=np.float32)),
}

serialize_file(
    {
        name: TensorSpec(
            dtype=dtype, shape=array.shape, data_ptr=array.ctypes.data, data_len=array.nbytes)
        for name, (dtype, array) in ARRAYS.items()
    },
    os.path.join(HERE, "python.safetensors"),
    {"format": "pt", "ghi chú": "xin chào"},
)
