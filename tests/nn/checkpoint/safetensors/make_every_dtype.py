#!/usr/bin/env python3
"""Wrote every_dtype.safetensors, with Python's safetensors 0.8.0 (pip install safetensors numpy).

One tensor of each dtype that the reference can write, called like it and of 8 elements, whose bytes are 0 and 1 in turn.
"""
import ctypes

from safetensors._safetensors_rust import TensorSpec, serialize_file

BITS = {'bool': 8, 'uint8': 8, 'int8': 8, 'int16': 16, 'uint16': 16, 'int32': 32, 'uint32': 32, 'int64': 64, 'uint64': 64,
        'float16': 16, 'bfloat16': 16, 'float32': 32, 'float64': 64, 'complex64': 64, 'float8_e4m3fn': 8, 'float8_e5m2': 8,
        'float8_e8m0fnu': 8, 'float8_e4m3fnuz': 8, 'float8_e5m2fnuz': 8, 'float4_e2m1fn_x2': 8}
content = bytes([0, 1] * 32)
buffer = ctypes.create_string_buffer(content, len(content))
serialize_file({name: TensorSpec(dtype=name, shape=[8], data_ptr=ctypes.addressof(buffer), data_len=bits)
                for name, bits in BITS.items()}, 'every_dtype.safetensors', {'format': 'np'})
