"""The clients of S3: what s3fs tries again, its errors as those of any storage, and Spark's settings."""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from functools import cache, wraps
from http import HTTPStatus
from importlib import import_module
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

PLACE = ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ALLOW_HTTP")
"""Variables of the environment that say where the server is. None of them is a secret."""

_LIBRARIES = {"aiobotocore", "aiohttp", "botocore"}
_SAID_LATER = {
    HTTPStatus.INTERNAL_SERVER_ERROR,
    HTTPStatus.BAD_GATEWAY,
    HTTPStatus.SERVICE_UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT,
}


@cache
def retry_refused() -> None:
    """Let s3fs repeat every request that the server refuses for now.

    By itself it repeats those whose answer has the word `SlowDown`, and the answer to HEAD has no words. Each
    of its five tries has five of botocore's, so a server may refuse for half a minute.
    """
    # By its name: it is there only with the extra `s3`.
    import_module("s3fs.core").set_custom_error_handler(is_refused)


def is_refused(error: Any) -> bool:
    """Whether an error is an answer of the server that it cannot serve the request now."""
    answer = getattr(error, "response", None)
    return isinstance(answer, dict) and answer["ResponseMetadata"].get("HTTPStatusCode") in _SAID_LATER


def with_os_errors(function: Callable[P, T]) -> Callable[P, T]:
    """Let a function on a URI raise OSError for a server that is away, as it does for every other storage."""

    @wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            if isinstance(error, OSError) or type(error).__module__.partition(".")[0] not in _LIBRARIES:
                raise
            raise OSError(errno.EIO, f"{args[0]}: {error}") from error

    return called


def hadoop_conf(environment: Mapping[str, str]) -> dict[str, str]:
    """Spark's settings of Hadoop's client, by the variables that other libraries read too."""
    found = {
        # Other libraries write the scheme so.
        "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        "spark.hadoop.fs.AbstractFileSystem.s3.impl": "org.apache.hadoop.fs.s3a.S3A",
    }
    if "AWS_ENDPOINT_URL" in environment:
        # Servers other than Amazon's have no host name for each bucket.
        found["spark.hadoop.fs.s3a.path.style.access"] = "true"
    if region := environment.get("AWS_REGION"):
        found["spark.hadoop.fs.s3a.endpoint.region"] = region
    return found
