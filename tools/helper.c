/* SPDX-License-Identifier: Apache-2.0 */
/* See helper.h. */
#include "tools/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include "base/scope.h"
#include "tools/tools.h"

/* EXIT STATUS of mount(8); umount(8) has the same. */
enum { STATUS_USAGE = 1, STATUS_SYSTEM = 2, STATUS_FAILED = 32 };

int helper_status(int verb_status)
{
	static const int statuses[] = {
		[VERB_DONE] = 0,
		[VERB_FAILED] = STATUS_FAILED,
		[VERB_USAGE] = STATUS_USAGE,
		[VERB_UNSENT] = STATUS_SYSTEM,
		[VERB_ELSEWHERE] = 0, /* as for any file system: it is not mounted here any more */
	};

	return statuses[verb_status];
}

int helper_enter(const char *space, struct fault *f)
{
	scoped(fd_close) int fd = -1;

	if (!space)
		return 0;
	fd = open(space, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || setns(fd, CLONE_NEWNS) < 0)
		return fault_errno(f, -errno, "namespace %s", space);
	return 0;
}
