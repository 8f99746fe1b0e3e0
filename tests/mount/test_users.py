# SPDX-License-Identifier: Apache-2.0
"""Mounts by others than root, and for others than who mounts."""

import os

import pytest

from lib.content import noise
from lib.space import NOBODY
from lib.stores import FileStore, make

OTHER = 4711


@pytest.fixture
def own(space):
    """A directory of the user NOBODY, with a mount point and a store."""
    path = space.root / "own"
    path.mkdir()
    (path / "ck").mkdir()
    make(FileStore(path / "store"), space.holdfast)
    space.run("chown", "-R", NOBODY, path)
    # Nothing of the machine that the tests run on.
    space.run("mount", "-n", "-t", "tmpfs", "-o", "mode=1777", "none", "/var/tmp")
    return path


def environment(**more):
    return {"PATH": os.environ["PATH"]} | more


def mount(space, own, options="takeover", uid=NOBODY, expect=0, **env):
    return space.run(
        *[space.holdfast, "mount", f"file://{own}/store", own / "ck", "-o", options],
        uid=uid,
        env=environment(**env),
        expect=expect,
    )


def test_a_user_mounts_saves_and_unmounts(space, own, machines):
    mount(space, own, HOME=str(own))
    assert (own / ".cache" / "holdfast").is_dir()
    (own / "source").write_bytes(noise(1 << 20))
    space.run("cp", own / "source", own / "ck" / "a", uid=NOBODY)
    assert "denied" in space.run("ls", own / "ck", expect=None).stderr, "root may look"
    done = space.run(space.holdfast, "umount", own / "ck", uid=NOBODY, env=environment())
    assert done.stderr == ""
    m = machines(FileStore(own / "store")).mount()
    assert (m.path / "a").read_bytes() == noise(1 << 20)
    assert (m.path / "a").stat().st_uid == NOBODY


def test_without_a_home_the_cache_is_the_users_own_place(space, own):
    mount(space, own)
    status = space.run(space.holdfast, "status", "--json", own / "ck", uid=NOBODY).stdout
    assert f'"/var/tmp/holdfast-{NOBODY}/' in status.replace("\\/", "/")
    mode = space.run("stat", "-c", "%a %u", f"/var/tmp/holdfast-{NOBODY}").stdout
    assert mode == f"700 {NOBODY}\n"
    space.run(space.holdfast, "umount", own / "ck", uid=NOBODY, env=environment())


def test_a_cache_that_somebody_else_has_put_there_is_refused(space, own):
    space.run("mkdir", "-m", "777", f"/var/tmp/holdfast-{NOBODY}")
    done = mount(space, own, expect=1)
    assert f"/var/tmp/holdfast-{NOBODY}" in done.stderr
    assert "cache=DIR" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_home_that_is_not_there_is_named_with_what_to_do(space, own):
    done = mount(space, own, expect=1, HOME="/nonexistent")
    assert "/nonexistent" in done.stderr
    assert "cache=DIR" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_allow_other_says_what_root_has_to_do_for_it(space, own):
    space.write_etc("fuse.conf", "# user_allow_other\n")
    done = mount(space, own, "allow_other", expect=1, HOME=str(own))
    assert "user_allow_other" in done.stderr
    assert "/etc/fuse.conf" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_allow_other_with_roots_leave_shows_it_to_others(space, own):
    space.write_etc("fuse.conf", "user_allow_other\n")
    mount(space, own, "allow_other", HOME=str(own))
    space.run("sh", "-c", f"echo x > {own}/ck/a", uid=NOBODY)
    assert space.run("cat", own / "ck" / "a", uid=OTHER).stdout == "x\n"
    assert "denied" in space.run("touch", own / "ck" / "b", uid=OTHER, expect=None).stderr
    space.run(space.holdfast, "umount", own / "ck", uid=NOBODY, env=environment())


def shown(space, path):
    return space.run("stat", "-c", "%u %g %a", path).stdout.strip()


def test_a_mount_of_roots_belongs_to_the_user_it_is_for(space, own):
    options = f"allow_other,uid={NOBODY},gid={OTHER},umask=027,cache={own}/cache"
    mount(space, own, options, uid=0)
    path = own / "ck" / "a"
    space.run("sh", "-c", f"echo x > {path}", uid=NOBODY)
    space.run("mkdir", own / "ck" / "d")
    for of in path, own / "ck", own / "ck" / "d":
        assert shown(space, of) == f"{NOBODY} {OTHER} 750"
    space.run("touch", own / "ck" / "d" / "of the user", uid=NOBODY)
    assert "denied" in space.run("cat", path, uid=OTHER + 1, expect=None).stderr

    # What tools set is kept, and not shown.
    space.run("chown", "7:8", path)
    space.run("chmod", "604", path)
    assert shown(space, path) == f"{NOBODY} {OTHER} 750"
    space.run("umount", own / "ck")
    mount(space, own, f"cache={own}/cache", uid=0)
    assert shown(space, path) == "7 8 604"
    assert shown(space, own / "ck" / "d") == "0 0 755"
    space.run("umount", own / "ck")


@pytest.mark.parametrize("word", ["uid=root", "gid=-1", "umask=9", "umask=01777", "uid=4294967295"])
def test_what_is_no_number_is_refused(space, own, word):
    done = mount(space, own, word, expect=2, HOME=str(own))
    assert word in done.stderr
    assert len(done.stderr.splitlines()) == 1
