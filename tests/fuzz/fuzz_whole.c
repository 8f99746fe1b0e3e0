/* SPDX-License-Identifier: Apache-2.0 */
/* Headers of checkpoints: whatever the bytes, a verdict, and no read outside of the file. */
#include <string.h>

#include "fs/track/whole.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/track/whole_files.h"

struct input {
	const uint8_t *data;
	size_t len;
};

static ssize_t read_input(void *arg, void *data, size_t len, uint64_t off)
{
	const struct input *in = arg;

	FUZZ_CHECK(off <= in->len && len <= in->len - off);
	if (len)
		memcpy(data, in->data + off, len);
	return (ssize_t)len;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct input in = {.data = data, .len = len};
	struct whole_source s = {.read = read_input, .arg = &in, .size = len};
	const char *why = NULL;
	enum whole_verdict verdict = whole_look(&s, &why);

	FUZZ_CHECK(why && (verdict == WHOLE_TORN) == (*why != '\0'));
	return 0;
}

bool fuzz_seed(size_t i, struct buf *out)
{
	if (i >= WHOLE_FILES)
		return false;
	whole_files[i].make(out);
	return buf_ok(out);
}
