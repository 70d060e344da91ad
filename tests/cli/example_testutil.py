"""tf.train.Examples without TensorFlow: what the tests need of protobuf's wire format."""

import struct


def varint(number):
    number &= 2**64 - 1
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes(out) + bytes([number])


def field(number, payload):
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def feature(values):
    if isinstance(values[0], bytes):
        return field(1, b"".join(field(1, value) for value in values))
    if isinstance(values[0], float):
        return field(2, field(1, struct.pack(f"<{len(values)}f", *values)))
    return field(3, field(1, b"".join(varint(value) for value in values)))


def example(features):
    """The bytes of an Example of lists of bytes, floats or ints by name."""
    entries = (field(1, field(1, name.encode()) + field(2, feature(values)))
               for name, values in features.items())
    return field(1, b"".join(entries))
