/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is there room for what is about to be written?  The cache may be over its size, or its disk full.
 *
 * Over its size a writer waits only while that helps: while something finished is on its way to the store and
 * can be dropped then.  Else the cache grows: a file larger than it must still be written.
 * A full disk is known by a write that failed.  Nothing is written then until the ballast is whole again (what is
 * free is the journal's first), and each try after that may fail again.
 */
#ifndef HOLDFAST_FS_ROOM_H
#define HOLDFAST_FS_ROOM_H

#include <stdbool.h>
#include <stdint.h>

struct mount;

enum room { ROOM_FREE, ROOM_CACHE_FULL, ROOM_DISK_FULL };

/* What is known, or seen at once; cheap while there is room.  Thread: any, without the lock. */
enum room room_now(struct mount *m);
/* Bytes came: what the store has may have to go, and it does before the cache is full. */
void room_may_go(struct mount *m);
/* Bytes that were to be kept found the disk full.  Without the lock. */
void room_disk_is_full(struct mount *m);
/* Make room if that can be done, and look again.  Blocks for the disk, never for the store. */
enum room room_look(struct mount *m);
/*
 * Since `since_ns` a writer waits: is it to hear ENOSPC now?  mapped: the bytes of a mapping, whose writer cannot be
 * interrupted, and so never waits long.  Under lock.
 */
bool room_gives_up(const struct mount *m, uint64_t since_ns, uint64_t now, bool mapped);
/* For people; "" while there is room. */
const char *room_why(const struct mount *m);

#endif
