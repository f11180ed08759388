"""HTTP/2 by hand, as a peer speaks it that keeps to no rule: frames of any kind over a socket, with TLS or without."""
import socket
import ssl

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RESET, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
END_STREAM, END_HEADERS = 1, 4


def frame(kind, flags=0, stream=0, payload=b"", length=None):
    """`length`: what its head says instead."""
    size = len(payload) if length is None else length
    return size.to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def fields(pairs):
    """HPACK: literals that no table keeps, lengths of up to 126 + 2^14 bytes."""
    def text(value):
        if len(value) < 127:
            return bytes([len(value)]) + value
        rest, out = len(value) - 127, bytes([127])
        while rest >= 128:
            out += bytes([rest & 127 | 128])
            rest >>= 7
        return out + bytes([rest]) + value
    return b"".join(b"\0" + text(name) + text(value) for name, value in pairs)


def call(path, *more, method=b"POST"):
    """The header of a gRPC call."""
    return fields([(b":method", method), (b":scheme", b"https"), (b":path", path.encode()), (b":authority", b"localhost"),
                   (b"content-type", b"application/grpc"), (b"te", b"trailers"), *more])


def message(content, length=None, compressed=0):
    """gRPC's frame of a message."""
    return bytes([compressed]) + (len(content) if length is None else length).to_bytes(4, "big") + content


def connect(port, folder=None, authority=None, timeout=10):
    """`folder`: certificate and key; `authority`: whom it believes, and None: no TLS."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=timeout)
    if authority is None:
        return connection
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(authority)
    context.check_hostname = False
    context.set_alpn_protocols(["h2"])
    if folder:
        context.load_cert_chain(f"{folder}/node.crt", f"{folder}/node.key")
    try:
        return context.wrap_socket(connection, server_hostname="localhost")
    except BaseException:
        connection.close()
        raise
