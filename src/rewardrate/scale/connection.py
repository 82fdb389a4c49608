"""Connecting this process to a Ray cluster, with or without a token, and saying why where it cannot be done."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import socket
from pathlib import Path
from typing import Any

from rewardrate.errors import InputError, MissingExtra

STORE_BYTES = 256 * 2**20  # of a cluster of our own: results and pieces pass through it, nothing stays
PROBE_SECONDS = 10.0
MODE, TOKEN, TOKEN_PATH = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"
TOKEN_REMEDY = (
    f"export {MODE}=token and give the cluster's token ({TOKEN}, {TOKEN_PATH} or ~/.ray/auth_token;"
    " `ray get-auth-token` on the head shows it)"
)
CLUSTER_ID = "/ray.rpc.NodeInfoGcsService/GetClusterId"  # the first thing that Ray itself asks a cluster


def connect(address: str) -> tuple[Any, bool]:
    """(ray, whether the connection is ours to close)."""
    try:
        import ray
        import ray.util.scheduling_strategies
    except ImportError:
        raise MissingExtra('sandbox.executor = "ray"', "ray", "ray") from None
    if ray.is_initialized():
        _same_cluster(ray, address)
        return ray, False
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing leaves the machines
    os.environ.setdefault("RAY_worker_niceness", "0")  # of a cluster of our own: else scripts would give way to anybody
    where = address or os.environ.get("RAY_ADDRESS", "")
    try:
        if where:
            _probe(where)
            ray.init(address=where, log_to_driver=False)
        else:
            _own_token()
            alone = {"include_dashboard": False, "object_store_memory": STORE_BYTES, "_node_ip_address": "127.0.0.1"}
            ray.init(address="local", log_to_driver=False, **alone)
    except InputError:
        raise
    except (OSError, ValueError, RuntimeError, ray.exceptions.RayError) as error:
        raise _refusal(where, error) from error
    return ray, True


def _probe(address: str) -> None:
    """Ask host:port before Ray does, which would be silent for minutes: OSError if nobody listens there.

    InputError if what listens is no Ray cluster, or if it asks for a token and this process would send none: Ray sends
    it to an address that was given by hand only in token mode. Other forms of an address are left to Ray.
    """
    found = _host_and_port(address)
    if found is None:
        return
    socket.create_connection(found, timeout=PROBE_SECONDS).close()
    answer = _first_answer(address)
    if answer == "UNAUTHENTICATED" and os.environ.get(MODE, "").lower() != "token":
        raise InputError("sandbox.address", address, _why_refused(), TOKEN_REMEDY)
    if answer not in ("OK", "UNAUTHENTICATED", "unknown"):
        rule = f"something listens there, but it does not answer as a Ray cluster does ({answer})"
        raise InputError("sandbox.address", address, rule, "give the address that `ray start --head` has printed")


def _refusal(where: str, error: Exception) -> InputError:
    """Why Ray could not connect: nobody there, a token that is missing or wrong, or something that Ray alone knows."""
    said = " ".join(str(error).split())
    named = re.search(r" at (\S+:\d+)", said)  # what "auto" has found
    place = where if _host_and_port(where) else named.group(1) if named else ""
    missing = type(error).__name__ == "AuthenticationError"  # not in every Ray that we take
    turned_away = isinstance(error, ConnectionError) and place and _first_answer(place) == "UNAUTHENTICATED"
    if missing or turned_away:
        return InputError("sandbox.address", where, _why_refused(missing), TOKEN_REMEDY)
    rule = f"no Ray cluster answers there ({said[:200]})"
    return InputError("sandbox.address", where, rule, "start one with: ray start --head")


def _why_refused(missing: bool = False) -> str:
    mode = os.environ.get(MODE, "")
    if mode.lower() != "token":
        why = f"{MODE} is {mode or 'not set'} here, so none is sent"
    else:
        why = "there is none on this machine" if missing else "the one on this machine is not the cluster's"
    return f"the Ray cluster there asks for a token, and {why}"


def _first_answer(address: str) -> str:
    """The gRPC status that a caller without a token gets; "unknown" where the package is not installed."""
    try:
        import grpc
    except ImportError:  # Ray has its own inside; the package comes with ray[default]
        return "unknown"
    if os.environ.get("RAY_USE_TLS", "0") not in ("", "0"):
        return "unknown"  # Ray has the certificates, we have not
    # Ray asks its nodes past any proxy, and so do we.
    with grpc.insecure_channel(address, options=(("grpc.enable_http_proxy", 0),)) as channel:
        try:
            channel.unary_unary(CLUSTER_ID)(b"", timeout=PROBE_SECONDS)
        except grpc.RpcError as error:
            return str(error.code().name)
    return "OK"


def _own_token() -> None:
    """A token for a cluster of our own, in this process alone.

    Ray would else save one in the home folder, and with that every cluster that is started later asks for it.
    """
    given = any(name in os.environ for name in (MODE, TOKEN, TOKEN_PATH))
    if not given and not (Path.home() / ".ray" / "auth_token").exists():
        os.environ[TOKEN] = secrets.token_hex(32)


def _same_cluster(ray: Any, address: str) -> None:
    """Refuse host:port of another cluster than the one this process is connected to. Other forms name no cluster."""
    found = _host_and_port(address)
    if found is None:
        return
    host, port = found
    here = ray.get_runtime_context().gcs_address
    known, _, known_port = here.rpartition(":")
    own = _addresses(ray.util.get_node_ip_address()) | {"127.0.0.1", "::1"}
    theirs, ours = _addresses(host), _addresses(known)
    if str(port) != known_port or not (theirs & ours or (theirs & own and ours & own)):
        rule = f"this process is connected to the Ray cluster at {here} already"
        raise InputError("sandbox.address", address, rule, "leave it out, or call ray.shutdown() before")


def _host_and_port(address: str) -> tuple[str, int] | None:
    """Of host:port; None for other forms ("auto", ray://...)."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or "/" in host:
        return None
    return host.strip("[]"), int(port)


def _addresses(host: str) -> set[str]:
    """The numbers behind a name; none where nobody knows it."""
    with contextlib.suppress(OSError, UnicodeError):
        return {str(found[4][0]) for found in socket.getaddrinfo(host, None)}
    return set()
