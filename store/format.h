/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store.json: written once by mkfs, read by everybody.  And the probe of what a store can do.
 * Thread: the owner of the objects' loop.
 */
#ifndef HOLDFAST_STORE_FORMAT_H
#define HOLDFAST_STORE_FORMAT_H

#include "store/objects.h"

#define STORE_FORMAT 1
#define STORE_SECRET_BYTES 192 /* XXH3's secret: keys every chunk and record hash */

struct store_id {
	uint8_t b[16];
};

struct store_format {
	unsigned format;
	struct store_id id;
	uint8_t secret[STORE_SECRET_BYTES];
	bool unfenced; /* made on a store that ignores conditions: one writer at a time, by hand */
};

/* What the probe found.  It writes and deletes objects under probe/<random>. */
struct store_probe {
	bool create_only;      /* If-None-Match: * honoured */
	bool read_after_write;
	bool ordered_list;
	bool ranges;
	bool checksums;        /* a wrong checksum was refused */
};
int store_probe(struct objects *o, struct store_probe *out, struct fault *f);

/*
 * Make a store: probe it, write store.json create-only.  -EEXIST if there is one, -ENOTSUP if the
 * store ignores conditions and !unfenced.
 */
int store_make(struct objects *o, bool unfenced, struct store_format *out, struct fault *f);
/* -ENOENT: no store there ("holdfast mkfs URI makes one"); -EPROTONOSUPPORT: another version. */
int store_load(struct objects *o, struct store_format *out, struct fault *f);
int store_format_encode(const struct store_format *s, struct buf *out);
int store_format_decode(const void *data, size_t len, struct store_format *out, struct fault *f);

#endif
