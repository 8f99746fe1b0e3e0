/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does a file look complete by its own header?  A KeyboardInterrupt in the middle of a save unwinds
 * through `with open(...)`, and the living process closes half a file like a finished one: only
 * the format tells them apart.  Known are zip (torch.save, npz, .keras), safetensors and HDF5.
 *
 * A whole file that is called torn would stay out of the store, so torn is only what breaks the
 * format's own rules.  Whatever is not understood, not here, or too large to look at is
 * WHOLE_UNKNOWN.
 *
 *   zip           a directory at its very end, which lies inside the file.  Concatenated
 *                 archives (torch DCP) are right.
 *   torch.save    finishes its archive after an exception, too: the directory is there and names
 *                 fewer storages than data.pkl wants
 *   safetensors   as long as its header says
 *   HDF5          at least as long as its superblock says, at 0, 512, 1024, ... behind a user
 *                 block; not marked as open by a writer (version 3)
 *
 * Bounded: some KiB at both ends, and for the directory of a zip, its data.pkl or the header of a
 * safetensors file as much memory as they take, WHOLE_TABLE_MOST each; larger ones are not read.
 * Pure but for the reads.  Thread: any.
 */
#ifndef HOLDFAST_FS_TRACK_WHOLE_H
#define HOLDFAST_FS_TRACK_WHOLE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define WHOLE_TABLE_MOST (4u << 20)

enum whole_verdict {
	WHOLE_UNKNOWN, /* of no format known here, or its bytes are not at hand */
	WHOLE_YES,
	WHOLE_TORN,
};

struct whole_source {
	/* As pread(2); anything but `len` (all of it lies inside `size`) is "not at hand". */
	ssize_t (*read)(void *arg, void *data, size_t len, uint64_t off);
	void *arg;
	uint64_t size;
};

/* *why: for WHOLE_TORN what is missing ("zip without its directory"), a constant; else "". */
enum whole_verdict whole_look(const struct whole_source *s, const char **why);

#endif
