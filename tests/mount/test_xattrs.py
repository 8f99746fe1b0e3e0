# SPDX-License-Identifier: Apache-2.0
"""Extended attributes: what is kept, what is refused, and what tools make of that."""

import errno
import os
import shutil
import struct
import subprocess

import pytest

from lib.content import MIB, noise, write_new
from lib.procs import Group, until

ACL = struct.pack("<I", 2) + b"".join(
    struct.pack("<HHI", tag, bits, 0xFFFFFFFF) for tag, bits in ((1, 6), (4, 4), (0x10, 7), (0x20, 4))
)
CAPABILITY = struct.pack("<5I", 0x02000001, 1 << 10, 0, 0, 0)
GETXATTR = "\\x16\\x00\\x00\\x00"

REFUSED = {
    "security.selinux": b"system_u:object_r:tmp_t:s0\0",
    "security.capability": CAPABILITY,
    "system.posix_acl_access": ACL,
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("call", ["set", "get", "remove"])
def test_labels_capabilities_and_acls_are_refused(file_machine, name, call):
    path = file_machine.path / "a"
    write_new(path, b"x")
    calls = {
        "set": lambda: os.setxattr(path, name, REFUSED[name]),
        "get": lambda: os.getxattr(path, name),
        "remove": lambda: os.removexattr(path, name),
    }
    with pytest.raises(OSError) as e:
        calls[call]()
    assert e.value.errno == errno.ENOTSUP
    assert os.listxattr(path) == []


TOOLS = {
    "cp": ["cp", "-a", "from/.", "to"],
    "rsync": ["rsync", "-aX", "from/", "to/"],
    "tar": [
        "sh",
        "-c",
        "tar --xattrs --xattrs-include='*' --selinux -cf a.tar -C from . &&"
        " tar --xattrs --xattrs-include='*' --selinux -xpf a.tar -C to",
    ],
    "ls": ["sh", "-c", "ls -lZ from && cp -a from/. to"],
}


@pytest.mark.parametrize("tool", TOOLS)
def test_tools_that_ask_for_all_attributes_keep_those_there_are(file_machine, tool):
    if not shutil.which(tool):
        pytest.skip(f"no {tool}")
    m = file_machine
    for directory in "from", "to":
        (m.path / directory).mkdir()
    write_new(m.path / "from" / "a", b"content")
    os.setxattr(m.path / "from" / "a", "user.origin", b"run 7")
    done = subprocess.run(
        TOOLS[tool], cwd=m.path, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    m.renew()
    assert (m.path / "to" / "a").read_bytes() == b"content"
    assert os.getxattr(m.path / "to" / "a", "user.origin") == b"run 7"


def test_a_file_is_asked_for_capabilities_once_and_not_at_each_write(file_machine, tmp_path):
    """Without HANDLE_KILLPRIV_V2 the kernel sends a GETXATTR before each write through its cache."""
    if not shutil.which("strace"):
        pytest.skip("no strace")
    m, trace = file_machine, tmp_path / "trace"
    fd = os.open(m.path / "a", os.O_RDWR | os.O_CREAT)
    strace = ["strace", "-f", "-p", str(m.pid), "-P", "/dev/fuse", "-e", "trace=read,writev"]
    with Group([*strace, "-xx", "-s", "8", "-o", str(trace)], stderr=subprocess.PIPE) as t:
        assert b"attached" in t.process.stderr.readline()
        for at in range(16):
            os.pwrite(fd, noise(MIB // 16), at * MIB // 16)
        os.fsync(fd)
        until(lambda: "read(" in trace.read_text(), 60, "something is traced")
        t.signal(2)
        t.wait(60)
    os.close(fd)
    requests = trace.read_text()
    assert requests.count("\\x10\\x00\\x00\\x00") >= 16, "the WRITEs are not seen"
    assert requests.count(GETXATTR) <= 1
