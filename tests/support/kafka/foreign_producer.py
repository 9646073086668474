"""A producer that sends what confluent-kafka does not let one send: headers whose names are any bytes."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path

import confluent_kafka

# rd_kafka_vtype_t
_END, _TOPIC, _PARTITION, _VALUE, _TIMESTAMP, _HEADERS = 0, 1, 3, 4, 8, 10
_FLAGS, _COPY = 7, 2
_TIMEOUT_MS = 30_000


def _library() -> ctypes.CDLL:
    """The librdkafka of confluent-kafka, which is in its wheel."""
    (path,) = Path(confluent_kafka.__file__).parent.parent.glob("confluent_kafka.libs/librdkafka*")
    library = ctypes.CDLL(str(path))
    pointer, text, size = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t
    for name, result, arguments in (
        ("conf_new", pointer, ()),
        ("conf_set", ctypes.c_int, (pointer, text, text, text, size)),
        ("new", pointer, (ctypes.c_int, pointer, text, size)),
        ("headers_new", pointer, (size,)),
        ("header_add", ctypes.c_int, (pointer, text, ctypes.c_ssize_t, text, ctypes.c_ssize_t)),
        ("flush", ctypes.c_int, (pointer, ctypes.c_int)),
        ("destroy", None, (pointer,)),
    ):
        function = getattr(library, f"rd_kafka_{name}")
        function.restype, function.argtypes = result, arguments
    return library


def send(
    bootstrap: str,
    topic: str,
    value: bytes,
    *,
    partition: int = 0,
    timestamp_ms: int | None = None,
    headers: Sequence[tuple[bytes, bytes]] = (),
) -> None:
    """Send one record, and wait until the broker has it."""
    library, error = _library(), ctypes.create_string_buffer(512)
    conf = library.rd_kafka_conf_new()
    assert library.rd_kafka_conf_set(conf, b"bootstrap.servers", bootstrap.encode(), error, 512) == 0
    producer = library.rd_kafka_new(0, conf, error, 512)
    assert producer, error.value
    added = library.rd_kafka_headers_new(len(headers))
    for name, content in headers:
        assert library.rd_kafka_header_add(added, name, len(name), content, len(content)) == 0
    arguments: list[object] = [ctypes.c_int(_TOPIC), ctypes.c_char_p(topic.encode())]
    arguments += [ctypes.c_int(_PARTITION), ctypes.c_int32(partition)]
    arguments += [ctypes.c_int(_VALUE), ctypes.c_char_p(value), ctypes.c_size_t(len(value))]
    arguments += [ctypes.c_int(_FLAGS), ctypes.c_int(_COPY), ctypes.c_int(_HEADERS), ctypes.c_void_p(added)]
    if timestamp_ms is not None:
        arguments += [ctypes.c_int(_TIMESTAMP), ctypes.c_int64(timestamp_ms)]
    try:
        assert library.rd_kafka_producev(ctypes.c_void_p(producer), *arguments, ctypes.c_int(_END)) == 0
        assert library.rd_kafka_flush(producer, _TIMEOUT_MS) == 0
    finally:
        library.rd_kafka_destroy(producer)
