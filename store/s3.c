/* SPDX-License-Identifier: Apache-2.0 */
/* The kind "s3".  Not there yet: says so. */
#include <errno.h>

#include "store/objects.h"

static int share(const struct store_uri *uri, void **out, struct fault *f)
{
	return fault_set(f, -ENOTSUP, FAULT_FINAL, "s3:// stores are not supported yet");
}

const struct object_ops objects_s3 = {.scheme = "s3", .share = share};
