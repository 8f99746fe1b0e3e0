/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mount options: one table feeds the parser, `holdfast mount --help` and the check against
 * holdfast-mount(8).  Thread: main.
 */
#ifndef HOLDFAST_FS_OPTS_H
#define HOLDFAST_FS_OPTS_H

#include <stdio.h>

#include "fs/mount.h"

void opts_default(struct mount_opts *o);
/* "a,b=c,..." as behind -o; may be called several times.  -EINVAL, with the option named. */
int opts_parse(struct mount_opts *o, const char *text, struct fault *f);
/* What single options cannot see; fills in what follows from others. */
int opts_check(struct mount_opts *o, struct fault *f);
void opts_help(FILE *out); /* a line an option */
void opts_fini(struct mount_opts *o);

#endif
