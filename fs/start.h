/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting and ending a mount: from a URI and a cache directory to a namespace that can be served,
 * in five round trips, and back.
 *
 *   1  LIST log/ (one key) ∥ store.json      4  (the first readdir: root block)
 *   2  the newest record                     5  the fence: join or reset
 *   3  base index ∥ runs since the base
 *
 * A cache is a writer at rest: same store, same boot, and its slot's last record its own: it goes on,
 * changes and all, with no new fence.  Otherwise this is a new writer; what the old cache holds is a
 * dead writer's (replay_discard()).
 */
#ifndef HOLDFAST_FS_START_H
#define HOLDFAST_FS_START_H

#include "fs/mount.h"

/* Fills m, whose opts are set; threads run afterwards (lanes, committer).  On failure m is as after mount_fini(). */
int mount_start(struct mount *m, struct fault *f);

/*
 * It cannot serve after all.  A cache that went on keeps what is unsent, and goes on another time;
 * else the slot is released.  mount_fini() included.
 */
void mount_give_up(struct mount *m);

/*
 * The end: acknowledge what is unsent (until deadline_ns; not at all with discard), release the slot.
 * 0, or why not everything is in the good moment; the cache then keeps it.
 */
int mount_end(struct mount *m, uint64_t deadline_ns, bool discard, struct fault *f);
/* Frees everything; of what mount_end() could not send the cache directory keeps the files. */
void mount_fini(struct mount *m);

#endif
