/* SPDX-License-Identifier: Apache-2.0 */
/* See newest.h. */
#include "store/newest.h"

#include <inttypes.h>

#include "store/log.h"

static int read_one(struct objects *o, const struct store_format *fmt, uint64_t number,
		    uint64_t deadline_ns, struct newest *io, struct fault *f)
{
	int rc;

	buf_fini(&io->raw);
	rc = log_read(o, "log", number, deadline_ns, &io->raw, f);
	if (rc < 0)
		return rc;
	rc = record_decode(fmt, io->raw.data, io->raw.len, &io->head, NULL, f);
	return rc < 0 ? fault_in(f, "record %" PRIu64, number) : 0;
}

static bool is_a_writers(const struct record_head *h)
{
	return h->kind == RECORD_COMMIT || h->kind == RECORD_JOIN || h->kind == RECORD_RESET;
}

int newest_read(struct objects *o, const struct store_format *fmt, uint64_t number,
		uint64_t deadline_ns, struct newest *io, struct fault *f)
{
	newest_fini(io);
	io->number = number;
	for (; number > 0; number--) {
		int rc = read_one(o, fmt, number, deadline_ns, io, f);

		if (rc < 0)
			return rc;
		if (number == io->number) {
			record_hash(fmt->secret, io->raw.data, io->raw.len, &io->hash);
			io->floor = io->head.floor;
		}
		if (is_a_writers(&io->head))
			return 0;
	}
	buf_fini(&io->raw);
	io->head = (struct record_head){.number = 0};
	return 0;
}

void newest_fini(struct newest *n)
{
	buf_fini(&n->raw);
	*n = NEWEST_EMPTY;
}

uint64_t newest_state(const struct newest *n)
{
	return n->head.kind == RECORD_JOIN ? n->head.from : n->head.number;
}

uint64_t newest_good(const struct newest *n)
{
	const struct record_head *h = &n->head;

	return h->kind == RECORD_RESET && h->good == h->from ? h->number : h->good;
}
