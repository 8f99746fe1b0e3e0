/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sealed, log, quiet: three questions about one file, asked when a moment is frozen.  All pure:
 * the facts are numbers that the mount keeps per inode, times are monotonic ns and 0 is "never".
 * Thread: any.
 *
 * I1: a writer that dies of a signal or with a status other than 0 seals nothing.
 * I2: what is sealed was left by its last writer, or synced, after the last byte was changed; and
 *     what was only left is not torn by its own header (whole.h).
 * I3: every reason to hold a quiet moment back ends by time, so no file can hold it for ever.
 */
#ifndef HOLDFAST_FS_TRACK_SEAL_H
#define HOLDFAST_FS_TRACK_SEAL_H

#include <stdbool.h>
#include <stdint.h>

#include "fs/track/policy.h"

/*
 * What the mount notes, and when:
 *   open for writing      writers_open, first_writer_open_ns if it was the first; killed_ns = 0
 *   create, O_TRUNC       last_write_ns: an empty file is a content too
 *   write, fallocate, ..  last_write_ns, last_write_unknown; copy_file_range as well; what was
 *                         known of the bytes as they were, torn and clean_close_is_sync, is void
 *   truncate by path      last_write_ns and clean_close_ns: nobody will close it
 *   fsync, msync          clean_close_ns, clean_close_is_pid0 = false (the whole file is synced);
 *                         clean_close_is_sync, unless each write is synced (O_SYNC): who asks for
 *                         that asks for the bytes as they are, whatever their header says
 *   FLUSH                 of the process that wrote last (or by pid 0): death_of() says
 *                         CLOSE_CLEAN: clean_close_ns, clean_close_is_pid0 = pid is 0
 *                         CLOSE_DYING or CLOSE_UNKNOWN: killed_ns, and clean_close_ns stays; so too
 *                         of any writer if last_write_unknown, until it is written through a mapping
 *                         (a clean close that was noted later in time wins by itself)
 *   RELEASE of a writer   writers_open, last_release_ns; first_writer_open_ns = 0 with the last
 *   once it would be sealed, whole_look() says WHOLE_TORN: torn
 * A file that was never touched in this mount has only zeros, and is sealed.
 */
struct seal_facts {
	uint64_t last_write_ns;
	uint64_t clean_close_ns;
	uint64_t last_release_ns;
	uint64_t first_writer_open_ns; /* since when writers_open is not 0 */
	uint64_t killed_ns;            /* its last writer was seen dying, with no writer since */
	uint64_t newest_other_seal_ns; /* newest seal anywhere by another process than the killed */
	uint32_t writers_open;
	bool last_write_unknown;       /* by a mapping: the kernel does not say who */
	bool clean_close_is_pid0;      /* by a process of another PID namespace */
	bool clean_close_is_sync;      /* asked for by fsync or msync since the last write */
	bool torn;                     /* incomplete by its own header */
};

struct log_facts {
	const char *name;                     /* last component of a name of the file */
	bool only_grown_since_seal;           /* since its creation if it was never sealed */
	uint64_t all_writers_append_since_ns; /* writers are open and each has O_APPEND */
};

/* Is the content as it is now one that its writer had finished with? */
bool sealed(const struct seal_facts *s, const struct track_policy *p, uint64_t now_ns);

/* Does a name match one of policy's patterns for logs? */
bool is_log_name(const char *name, const struct track_policy *p);

/* May the file be committed at its present length although it is not sealed? */
bool is_log(const struct log_facts *l, const struct track_policy *p, uint64_t now_ns);

/*
 * Does this file keep the present moment from being quiet?  Sealed files and logs never do.  The
 * caller leaves changes of a file that holds nothing back out of its "no change for 1 s" too:
 * an HDF5 file that is open for hours and written 5 times a second would hold it by those.
 */
bool quiet_holds(const struct seal_facts *s, const struct log_facts *l,
		 const struct track_policy *p, uint64_t now_ns);

/* When quiet_holds() turns false by time alone; 0 if it is false now. */
uint64_t quiet_holds_until(const struct seal_facts *s, const struct log_facts *l,
			   const struct track_policy *p, uint64_t now_ns);

#endif
