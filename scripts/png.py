"""Pictures of any pixels, for scripts/soak and scripts/load."""
import struct
import zlib


def png_of(width, height, grey):
    """A grey picture as the bytes of a PNG."""
    rows = b"".join(b"\0" + bytes(grey(x, y) for x in range(width)) for y in range(height))

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
