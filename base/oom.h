/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's choice of whom to kill when memory runs out; see proc_pid_oom_score_adj(5).  Thread: any. */
#ifndef HOLDFAST_BASE_OOM_H
#define HOLDFAST_BASE_OOM_H

#include <sys/types.h>

/* Last, but not never: a daemon that leaks has to go.  0, or -errno: without CAP_SYS_RESOURCE -EACCES. */
int oom_spare_us(void);
/* A child of ours has it from us: what it runs is like any other program.  Right after the spawn. */
void oom_not_for(pid_t child);

#endif
