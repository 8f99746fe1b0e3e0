/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file that appears, for hooks: empty, or with the seconds that are left from when it was
 * written.  Any other content counts as empty.  One that lay there long before us is a notice whose
 * time is past.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/notice/source.h"

enum { TEXT_MOST = 32, SECONDS_MOST = 24 * 3600 };

/* Seconds that the file names; 0: none. */
static uint64_t seconds_in(int fd)
{
	char text[TEXT_MOST + 1] = "", *end;
	double seconds;

	if (pread(fd, text, TEXT_MOST, 0) <= 0)
		return 0;
	seconds = strtod(text, &end);
	if (end == text || !(seconds >= 1 && seconds <= SECONDS_MOST)) /* NaN is neither */
		return 0;
	return (uint64_t)seconds;
}

/* Time that has passed since it was written is gone; if it was written in the future, a clock is
 * wrong. */
static uint64_t deadline_of(const struct file_watch *w, int fd)
{
	uint64_t now_ns = clock_mono(&clock_system), seconds = seconds_in(fd);
	uint64_t all_ns = seconds ? seconds * NS_PER_S : w->usual_ns;
	int64_t age_ns = clock_wall(&clock_system) - w->changed_ns;

	if (age_ns > 0 && (uint64_t)age_ns >= all_ns)
		return now_ns;
	return now_ns + all_ns - (age_ns > 0 ? (uint64_t)age_ns : 0);
}

/* Never follows a link or waits for a FIFO's other end.  Its deadline is worked out once for
 * each writing. */
const struct notice_word *file_look(struct file_watch *w)
{
	scoped(fd_close) int fd = open(w->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
	struct stat st;
	int64_t changed_ns;

	w->says.voice = NOTICE_FILE;
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		w->says.kind = NOTICE_NOTHING;
		return &w->says;
	}
	changed_ns = (int64_t)st.st_mtim.tv_sec * (int64_t)NS_PER_S + st.st_mtim.tv_nsec;
	if (w->says.kind == NOTICE_NOTHING || st.st_ino != w->ino || changed_ns != w->changed_ns) {
		w->ino = st.st_ino;
		w->changed_ns = changed_ns;
		w->says.kind = NOTICE_TERMINATE;
		w->says.deadline_ns = deadline_of(w, fd);
	}
	return &w->says;
}
