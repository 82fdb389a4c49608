"""The launcher ends when its parent does or its line closes, and answers nothing but requests."""

import os
import socket
import subprocess
import sys

import pytest

from rewardrate.sandbox.launch import SERVE, SOURCE

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the box is Linux's")


def start(parent):
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    words = [SOURCE, str(theirs.fileno()), str(parent), "[]"]
    process = subprocess.Popen(
        [sys.executable, "-ISB", "-c", SERVE, *words],
        pass_fds=[theirs.fileno()],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    theirs.close()
    return ours, process


def test_it_says_when_it_is_ready_and_ends_when_the_line_closes():
    line, process = start(os.getpid())
    assert b'"ready"' in line.recv(1000)
    line.close()
    assert process.wait(60) == 0


def test_it_does_not_serve_a_parent_that_is_gone():
    line, process = start(os.getppid())  # as if its parent had died before it looked
    assert line.recv(1000) == b""
    assert process.wait(60) == 0
    line.close()


def test_a_request_without_descriptors_is_refused_and_one_with_a_broken_template_fails_alone():
    line, process = start(os.getpid())
    line.recv(1000)
    line.send(b"go")
    assert line.recv(100) == b"no"
    pipes = [os.pipe() for _ in range(5)]
    os.close(pipes[0][1])  # a template that ends before it begins
    ends = [pipes[0][0], *(pipe[1] for pipe in pipes[1:])]
    socket.send_fds(line, [b"go"], ends)
    answer, places, _, _ = socket.recv_fds(line, 100, 1)
    assert (answer, len(places)) == (b"ok", 1)
    for pipe in pipes[1:]:
        os.close(pipe[1])
    assert os.read(pipes[1][0], 10) == b""
    line.send(b"go")
    assert line.recv(100) == b"no"
    for number in (ends[0], places[0], *(pipe[0] for pipe in pipes[1:])):
        os.close(number)
    line.close()
    assert process.wait(60) == 0
