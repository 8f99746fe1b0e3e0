/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a mount measures, as a file in Prometheus' text format for node-exporter's textfile
 * collector. Names and meanings are stable and documented in holdfast-mount(8).  Thread: any.
 *
 * The mount writes it for `-o metrics=PATH` every 15 s, at a notice every second, and removes it at
 * its end, from a thread that may block on the disk of PATH (not the committer's); PATH is not
 * under the mount point.
 */
#ifndef HOLDFAST_FS_METRICS_H
#define HOLDFAST_FS_METRICS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/fault.h"

/* As status.c has them.  Text is borrowed, any bytes; NULL is "". */
struct metrics {
	const char *mount; /* the mount point: a label of every sample, so that mounts add up */
	const char *version, *store, *mode;
	/* now */
	uint64_t dirty_bytes;
	double flush_s; /* NAN: no rate is known */
	uint64_t rate_bps;
	double good_age_s, failing_s;
	uint64_t commit, good;
	uint64_t cache_bytes, waiting_writers;
	bool read_only, fenced;
	/* the gauge: of the newest save that a notice now would lose; 0: none */
	uint64_t loss_bytes;
	double short_s;
	/* notices */
	bool notice_runs, notice_hint;
	double notice_left_s; /* 0: none runs */
	uint64_t notices;
	/* since the mount began */
	uint64_t commits, errors;
	uint64_t sent_bytes, deduped_bytes, fetched_bytes;
	uint64_t gets, puts, lists, deletes, retries;
};

/* Appends all of it; the caller looks at buf_ok(). */
void metrics_text(const struct metrics *m, struct buf *out);

/*
 * Puts the text into place at once: a reader sees the old file or the new one, both whole.
 * "PATH.new" is used on the way; what lies there is replaced.  Readable by all.  Not synced: after
 * a crash of the machine it is worth nothing. Fails: as open(2), write(2), rename(2) do.  Fault:
 * FINAL, names the path.
 */
int metrics_write(const char *path, const struct buf *text, struct fault *f);
/* Old figures are worse than none.  Nothing happens if it is not there. */
void metrics_remove(const char *path);

#endif
