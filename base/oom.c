/* SPDX-License-Identifier: Apache-2.0 */
/* See oom.h. */
#include "base/oom.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/scope.h"

#define OURS "/proc/self/oom_score_adj"
#define LAST (-900)

static int get(int *out)
{
	scoped(fd_close) int fd = open(OURS, O_RDONLY | O_CLOEXEC);
	char text[16] = "";

	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
		return -errno;
	*out = atoi(text);
	return 0;
}

static int set(const char *path, int value)
{
	scoped(fd_close) int fd = open(path, O_WRONLY | O_CLOEXEC);
	char text[16];
	int n = snprintf(text, sizeof(text), "%d", value);

	return fd < 0 || write(fd, text, (size_t)n) < 0 ? -errno : 0;
}

int oom_spare_us(void)
{
	int now, rc = get(&now);

	return rc < 0 || now <= LAST ? rc : set(OURS, LAST);
}

void oom_not_for(pid_t child)
{
	char path[64];
	int now;

	if (get(&now) < 0 || now >= 0)
		return;
	(void)snprintf(path, sizeof(path), "/proc/%ld/oom_score_adj", (long)child);
	(void)set(path, 0); /* fails if it has ended already */
}
