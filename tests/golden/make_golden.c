/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the golden store: a small store with one of everything that format 1 can hold today.
 *
 *     make_golden DIRECTORY
 *
 * Secret, ids and times are fixed, so the same program writes the same bytes (as far as zstd does:
 * its versions compress differently, and a committed store is never written anew).  What later
 * releases write goes into a directory of its own beside it.
 *
 *      1 join                          8 commit over a base (0, 7], which lies in packs
 *      2 commit  run/ and its files    9 commit  whose run lies in packs
 *      3 empty   good = 2             10 empty   good = 9, release
 *      4 commit  links, an xattr      11 join    of another writer
 *      5 commit  a rename             12 commit  a note
 *      6 commit  a removal,           13 reset   to 10
 *                cumulative           14 commit  good, release
 *      7 commit  many/ and sparse.bin
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "store/log.h"
#include "store/pack.h"
#include "store/state.h"
#include "tests/golden/content.h"

#define FENCE_A    UINT64_C(1)
#define INODE(n)   (FENCE_A << 34 | (n))
#define DIR_RUN    INODE(1)
#define CONFIG     INODE(2)
#define MODEL      INODE(3)
#define LATEST     INODE(4)
#define DIR_MANY   INODE(5)
#define SPARSE     INODE(6)
#define NOTE       INODE(7)
#define MANY_FIRST INODE(1000)

struct golden {
	const char *dir;
	struct store_format fmt;
	struct record_head head;    /* of the newest record */
	struct hash128 hash;        /* of it */
	struct state *state;        /* at it */
	struct run_builder *change; /* what the next commit holds */
	struct pack_builder pack;
	uint64_t packs; /* counter */
	struct block_source src;
	struct pack_sink sink;
};

static void must(int rc, const char *what)
{
	if (rc >= 0)
		return;
	(void)fprintf(stderr, "make_golden: %s: %s\n", what, strerror(-rc));
	exit(1);
}

/* ---- the bucket, without the code that is to read it ---- */

static FILE *open_key(const struct golden *g, const char *key, const char *mode)
{
	char path[4200], folder[4200];
	FILE *file;

	(void)snprintf(path, sizeof(path), "%s/%s", g->dir, key);
	for (char *slash = path + strlen(g->dir); (slash = strchr(slash + 1, '/'));) {
		(void)snprintf(folder, sizeof(folder), "%.*s", (int)(slash - path), path);
		if (mkdir(folder, 0777) < 0 && errno != EEXIST)
			must(-errno, folder);
	}
	file = fopen(path, mode);
	must(file ? 0 : -errno, path);
	return file;
}

static void write_object(const struct golden *g, const char *key, const void *data, size_t len)
{
	FILE *out = open_key(g, key, "wbx");

	must(fwrite(data, 1, len, out) == len && fclose(out) == 0 ? 0 : -EIO, key);
}

static int read_range(struct block_source *src, uint64_t pack, uint64_t off, size_t len,
		      uint8_t *dest, struct fault *f)
{
	char key[PACK_KEY_MAX];
	FILE *in;

	pack_key(pack, key);
	in = open_key(src->arg, key, "rb");
	must(fseek(in, (long)off, SEEK_SET) == 0 && fread(dest, 1, len, in) == len ? 0 : -EIO, key);
	(void)fclose(in); /* read only */
	return 0;
}

static int write_pack(struct pack_sink *sink, const void *data, size_t len, uint64_t *out_pack,
		      struct fault *f)
{
	struct golden *g = sink->arg;
	char key[PACK_KEY_MAX];

	*out_pack = g->head.fence << 34 | ++g->packs;
	pack_key(*out_pack, key);
	write_object(g, key, data, len);
	return 0;
}

/* ---- records ---- */

static struct record_head next_head(const struct golden *g, enum record_kind kind)
{
	struct record_head h =
		g->head; /* id, slots, fence, good, base, cumulative and host go on */

	h.number++;
	h.prev = g->hash;
	h.kind = (uint8_t)kind;
	h.flags = 0;
	h.from = g->head.number;
	h.nonce = h.number * UINT64_C(0x9e3779b97f4a7c15);
	h.time_ns = INT64_C(1764460800000000000) + (int64_t)h.number * 60000000000;
	return h;
}

static void append(struct golden *g, const struct record_head *h, struct run *run,
		   const struct buf *body)
{
	scoped(buf_fini) struct buf raw = BUF_EMPTY;
	struct state *next = NULL;
	char key[LOG_KEY_MAX];

	must(record_encode(g->fmt.secret, h, body->data, body->len, &raw), "record");
	log_key("log", h->number, key);
	write_object(g, key, raw.data, raw.len);
	record_hash(g->fmt.secret, raw.data, raw.len, &g->hash);
	must(state_next(g->state, h, run, &next), "state");
	state_unref(g->state);
	g->state = next;
	g->head = *h;
}

static void append_empty(struct golden *g, const struct record_head *h)
{
	append(g, h, NULL, &BUF_EMPTY);
}

static struct run *take_change(struct golden *g)
{
	struct run *run = NULL;

	must(run_builder_finish(g->change, &run), "run");
	return run;
}

static void append_change(struct golden *g, const struct record_head *h)
{
	scoped(run_unref) struct run *run = take_change(g);
	scoped(buf_fini) struct buf body = BUF_EMPTY;

	must(run_encode(run, &body), "run");
	append(g, h, run, &body);
}

static void append_packed(struct golden *g, struct record_head *h)
{
	scoped(run_unref) struct run *run = take_change(g);
	scoped(buf_fini) struct buf body = BUF_EMPTY;
	struct run_ref ref;
	struct fault f = FAULT_NONE;

	must(run_pack(&g->fmt, &g->sink, run, &ref, &f), f.text);
	must(run_ref_encode(&ref, &body), "run reference");
	h->flags |= RECORD_PACKED;
	append(g, h, run, &body);
}

/* With the change, if there is one, all since the base. */
static void append_cumulative(struct golden *g, struct record_head *h)
{
	scoped(run_unref) struct run *change = take_change(g), *since = NULL, *all = NULL;
	scoped(buf_fini) struct buf body = BUF_EMPTY;

	must(state_cumulative(g->state, &since), "cumulative run");
	must(run_merge((struct run *[]){change, since}, 2, false, &all), "cumulative run");
	must(run_encode(all, &body), "cumulative run");
	h->flags |= RECORD_CUMULATIVE;
	h->cumulative = h->number;
	append(g, h, all, &body);
}

/* ---- what changes ---- */

static void put_name(struct golden *g, uint64_t dir, const char *name, uint64_t home, uint64_t id,
		     uint8_t type)
{
	scoped(buf_fini) struct buf v = BUF_EMPTY;
	uint8_t key[RUN_KEY_MAX];
	size_t len = key_of_name(dir, name, strlen(name), key);

	must(name_rec_encode(&(struct name_rec){.id = id, .home = home, .type = type}, &v), name);
	must(run_builder_add(g->change, key, len, v.data, v.len), name);
}

static void remove_name(struct golden *g, uint64_t dir, const char *name)
{
	uint8_t key[RUN_KEY_MAX];

	must(run_builder_add(g->change, key, key_of_name(dir, name, strlen(name), key), NULL, 0),
	     name);
}

static struct inode_rec inode(uint64_t home, uint64_t id, uint32_t mode, uint32_t nlink)
{
	return (struct inode_rec){
		.id = id,
		.home = home,
		.attr = {.mode = mode,
			 .uid = 1000,
			 .gid = 100,
			 .nlink = nlink,
			 .atime_ns = 1000000001,
			 .mtime_ns = INT64_C(1764460800123456789),
			 .ctime_ns = -1},
	};
}

static void put_inode(struct golden *g, struct inode_rec *i)
{
	if (S_ISREG(i->attr.mode))
		i->attr.size = extents_bytes(&i->extents);
	must(inode_rec_put(g->change, i, 0), "inode");
	i->symlink = NULL; /* literals, not owned */
	i->xattrs = NULL;
	i->xattr_n = 0;
	inode_rec_fini(i);
}

static void add_inline(struct golden *g, struct inode_rec *i, const char *text)
{
	struct extent e = {.kind = EXTENT_INLINE,
			   .length = strlen(text),
			   .data = (uint8_t *)strdup(text)};

	chunk_hash(g->fmt.secret, text, e.length, &e.hash);
	must(extents_add(&i->extents, &e), "extent");
}

static void add_chunk(struct golden *g, struct inode_rec *i, const uint8_t *data, size_t len,
		      bool zstd)
{
	struct extent e = {.kind = EXTENT_CHUNK, .length = len};
	size_t stored =
		zstd ? chunk_compress(data, len, pack_at(&g->pack), pack_room(&g->pack)) : 0;

	chunk_hash(g->fmt.secret, data, len, &e.hash);
	if (stored > 0)
		pack_commit(&g->pack, CODEC_ZSTD, stored, &e.hash, len, &e.place);
	else if (!pack_add(&g->pack, CODEC_RAW, data, len, &e.hash, len, &e.place))
		must(-ENOSPC, "pack");
	must(extents_add(&i->extents, &e), "extent");
}

static void add_zeros(struct inode_rec *i, uint64_t len)
{
	must(extents_add(&i->extents, &(struct extent){.kind = EXTENT_ZERO, .length = len}),
	     "extent");
}

static void send_pack(struct golden *g)
{
	size_t len = pack_end(&g->pack, g->fmt.secret);
	char key[PACK_KEY_MAX];

	pack_key(g->pack.name, key);
	write_object(g, key, g->pack.data, len);
}

static void put_model(struct golden *g)
{
	scoped(free) uint8_t *data = malloc(GOLDEN_MODEL);
	struct inode_rec i = inode(DIR_RUN, MODEL, S_IFREG | 0640, 1);

	must(data ? 0 : -ENOMEM, "model.bin");
	golden_model(data);
	pack_begin(&g->pack, PACK_CHUNKS, g->head.fence << 34 | ++g->packs);
	for (size_t at = 0, n; at < GOLDEN_TEXT; at += n) {
		n = chunk_cut(data + at, GOLDEN_TEXT - at, true);
		add_chunk(g, &i, data + at, n, true);
	}
	add_zeros(&i, GOLDEN_ZEROS);
	add_chunk(g, &i, data + GOLDEN_TEXT + GOLDEN_ZEROS, GOLDEN_RANDOM, false);
	put_inode(g, &i);
	send_pack(g);
}

/* Its 1 500 bytes of data are one chunk, stored once. */
static void put_sparse(struct golden *g)
{
	struct inode_rec i = inode(ROOT_ID, SPARSE, S_IFREG | 0600, 1);
	uint8_t one = 1;

	pack_begin(&g->pack, PACK_CHUNKS, g->head.fence << 34 | ++g->packs);
	add_chunk(g, &i, &one, 1, false);
	for (unsigned k = 1; k < GOLDEN_SPARSE_N; k++) {
		struct extent again = i.extents.v[0];

		add_zeros(&i, 4095);
		must(extents_add(&i.extents, &again), "extent");
	}
	put_inode(g, &i);
	send_pack(g);
	put_name(g, ROOT_ID, "sparse.bin", ROOT_ID, SPARSE, DT_REG);
}

static void many_name(unsigned i, char out[40])
{
	(void)snprintf(out, 40, "shard-%05u-of-%05u.distcp", i, GOLDEN_MANY);
}

static void put_many(struct golden *g)
{
	struct inode_rec dir = inode(ROOT_ID, DIR_MANY, S_IFDIR | 0755, 2);
	char name[40];

	put_name(g, ROOT_ID, "many", ROOT_ID, DIR_MANY, DT_DIR);
	put_inode(g, &dir);
	for (unsigned k = 0; k < GOLDEN_MANY; k++) {
		struct inode_rec i = inode(DIR_MANY, MANY_FIRST + k, S_IFREG | 0644, 1);

		many_name(k, name);
		put_name(g, DIR_MANY, name, DIR_MANY, MANY_FIRST + k, DT_REG);
		put_inode(g, &i);
	}
}

/* ---- the story ---- */

static void first_writer(struct golden *g)
{
	struct inode_rec root = inode(ROOT_ID, ROOT_ID, S_IFDIR | 0755, 3);
	struct inode_rec run = inode(ROOT_ID, DIR_RUN, S_IFDIR | 02775, 2);
	struct inode_rec config = inode(DIR_RUN, CONFIG, S_IFREG | 0644, 1);
	struct record_head h = next_head(g, RECORD_JOIN);

	h.fence = h.number;
	append_empty(g, &h);

	put_inode(g, &root);
	put_inode(g, &run);
	put_name(g, ROOT_ID, "run", ROOT_ID, DIR_RUN, DT_DIR);
	add_inline(g, &config, GOLDEN_CONFIG);
	put_inode(g, &config);
	put_name(g, DIR_RUN, "config.json", DIR_RUN, CONFIG, DT_REG);
	put_model(g);
	put_name(g, DIR_RUN, "model.bin", DIR_RUN, MODEL, DT_REG);
	h = next_head(g, RECORD_COMMIT);
	h.flags = RECORD_QUIET;
	append_change(g, &h);

	h = next_head(g, RECORD_COMMIT);
	h.good = 2;
	append_empty(g, &h);
}

/* The model's inode as it is in the state, with another number of names. */
static void put_model_names(struct golden *g, uint32_t nlink)
{
	struct inode_rec model = {.id = 0};
	struct fault f = FAULT_NONE;

	must(state_inode(g->state, &g->src, DIR_RUN, MODEL, &model, &f), f.text);
	model.attr.nlink = nlink;
	put_inode(g, &model);
}

static void names_and_links(struct golden *g)
{
	char target[] = "model.bin", xattr_name[] = "user.origin", xattr_value[] = "golden";
	struct xattr xattr = {.name = xattr_name, .value = (uint8_t *)xattr_value, .len = 6};
	struct inode_rec latest = inode(DIR_RUN, LATEST, S_IFLNK | 0777, 1);
	struct inode_rec config = inode(DIR_RUN, CONFIG, S_IFREG | 0644, 1);
	struct record_head h = next_head(g, RECORD_COMMIT);

	latest.symlink = target;
	latest.attr.size = strlen(target);
	put_inode(g, &latest);
	put_name(g, DIR_RUN, "latest", DIR_RUN, LATEST, DT_LNK);
	put_model_names(g, 2);
	put_name(g, ROOT_ID, "model-link.bin", DIR_RUN, MODEL, DT_REG);
	add_inline(g, &config, GOLDEN_CONFIG);
	config.xattrs = &xattr;
	config.xattr_n = 1;
	put_inode(g, &config);
	h.flags = RECORD_QUIET;
	append_change(g, &h);

	remove_name(g, DIR_RUN, "config.json");
	put_name(g, DIR_RUN, "settings.json", DIR_RUN, CONFIG, DT_REG);
	h = next_head(g, RECORD_COMMIT);
	h.good = 4;
	append_change(g, &h);

	remove_name(g, ROOT_ID, "model-link.bin");
	put_model_names(g, 1);
	h = next_head(g, RECORD_COMMIT);
	append_cumulative(g, &h);
}

static void many_files_and_a_base(struct golden *g)
{
	struct record_head h = next_head(g, RECORD_COMMIT);
	struct fault f = FAULT_NONE;
	char name[40];

	put_many(g);
	put_sparse(g);
	h.good = 6;
	append_change(g, &h);

	h = next_head(g, RECORD_COMMIT);
	must(state_pack_base(g->state, &g->src, &g->sink, &h.base, &f), f.text);
	h.base_upto = 7;
	h.cumulative = 0;
	many_name(0, name);
	remove_name(g, DIR_MANY, name);
	must(inode_rec_remove(g->change, DIR_MANY, MANY_FIRST, 1), name);
	append_change(g, &h);

	many_name(1, name);
	remove_name(g, DIR_MANY, name);
	must(inode_rec_remove(g->change, DIR_MANY, MANY_FIRST + 1, 1), name);
	remove_name(g, ROOT_ID, "sparse.bin");
	must(inode_rec_remove(g->change, ROOT_ID, SPARSE, (2 * GOLDEN_SPARSE_N - 1 + 1023) / 1024),
	     "sparse.bin");
	h = next_head(g, RECORD_COMMIT);
	append_packed(g, &h);

	h = next_head(g, RECORD_COMMIT);
	h.good = 9;
	h.flags = RECORD_RELEASE;
	append_empty(g, &h);
}

static void next_fence(struct golden *g, struct record_head *h, const char *host)
{
	h->fence = h->number;
	h->attempt++;
	(void)snprintf(h->host, sizeof(h->host), "%s", host);
	g->packs = 0;
}

static void other_writers(struct golden *g)
{
	struct inode_rec note = inode(ROOT_ID, NOTE, S_IFREG | 0644, 1);
	scoped(state_unref) struct state *at_10 = state_ref(g->state);
	struct record_head h = next_head(g, RECORD_JOIN);

	next_fence(g, &h, "golden-b");
	append_empty(g, &h);

	add_inline(g, &note, GOLDEN_NOTE);
	put_inode(g, &note);
	put_name(g, ROOT_ID, "note.txt", ROOT_ID, NOTE, DT_REG);
	h = next_head(g, RECORD_COMMIT);
	append_change(g, &h);

	state_unref(g->state);
	g->state = state_ref(at_10);
	h = next_head(g, RECORD_RESET);
	h.from = h.good = 10;
	next_fence(g, &h, "golden-c");
	append_cumulative(g, &h);

	remove_name(g, DIR_RUN, "latest");
	must(inode_rec_remove(g->change, DIR_RUN, LATEST, 1), "latest");
	h = next_head(g, RECORD_COMMIT);
	h.good = 14;
	h.flags = RECORD_QUIET | RECORD_RELEASE;
	append_change(g, &h);
}

static void write_format(struct golden *g)
{
	scoped(buf_fini) struct buf json = BUF_EMPTY;

	g->fmt = (struct store_format){.format = STORE_FORMAT};
	fill_random(g->fmt.id.b, sizeof(g->fmt.id.b), 1);
	fill_random(g->fmt.secret, sizeof(g->fmt.secret), 2);
	must(store_format_encode(&g->fmt, &json), "store.json");
	write_object(g, "store.json", json.data, json.len);
}

int main(int argc, char **argv)
{
	struct golden g = {.dir = argv[1], .change = run_builder_new()};

	if (argc != 2 || !g.change || pack_init(&g.pack, NULL) < 0 ||
	    (mkdir(g.dir, 0777) < 0 && errno != EEXIST)) {
		(void)fprintf(stderr, "usage: make_golden DIRECTORY\n");
		return 2;
	}
	write_format(&g);
	g.src = (struct block_source){.get = read_range, .arg = &g};
	g.sink = (struct pack_sink){.put = write_pack, .arg = &g};
	must(state_empty(&g.fmt, &g.state), "state");
	g.head = (struct record_head){.store = g.fmt.id,
				      .slots = 1,
				      .attempt = 1,
				      .host = "golden-a"};
	first_writer(&g);
	names_and_links(&g);
	many_files_and_a_base(&g);
	other_writers(&g);
	state_unref(g.state);
	run_builder_free(g.change);
	pack_fini(&g.pack);
	return 0;
}
