/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directory of a file:// store: its descriptor, its keys and its faults.  Thread: any.
 *
 * It is opened when it is first there and held open: if it is unmounted behind our back, we must
 * not go on in the empty directory below the mount point.
 */
#ifndef HOLDFAST_STORE_DIR_ROOT_H
#define HOLDFAST_STORE_DIR_ROOT_H

#include <stdbool.h>

#include "base/fault.h"
#include "base/scope.h"

#define DIR_KEY_MAX 1024

struct dir_root;
int dir_root_new(const char *path, struct dir_root **out, struct fault *f);
struct dir_root *dir_root_ref(struct dir_root *d);
void dir_root_unref(struct dir_root *d);
SCOPE_PTR(struct dir_root, dir_root_unref)

/* The descriptor, valid as long as d; make: mkdir -p first.  Or a negative errno. */
int dir_root_fd(struct dir_root *d, bool make);

/* True the first time it is asked. */
bool dir_root_first_put(struct dir_root *d);

/* No empty segment, none that begins with '.', and not too long. */
bool dir_key_is_valid(const char *key);

/* What the system said of an operation (rc: a negative errno), as a fault.  Returns its code. */
int dir_fault(const struct dir_root *d, const char *op, const char *key, int rc, struct fault *f);
int dir_refuse_key(const struct dir_root *d, const char *op, const char *key, struct fault *f);

#endif
