/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a lane costs: one file of random bytes out and in again, with wall time and CPU time a GB.
 *
 *     lane_bench URI FILE [MIB [LANES [FILES]]]
 *
 * FILE is made if it is missing.  With FILES the range is handed in as so many uploads.  The store
 * behind URI is left with the packs.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "fs/lane/lane.h"

#define MIB ((uint64_t)1 << 20)

struct waiter {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	unsigned left;
};

struct meter {
	uint64_t wall_ns;
	double cpu_s;
};

static double cpu_now(void)
{
	struct rusage r;

	(void)getrusage(RUSAGE_SELF, &r); /* cannot fail for ourselves */
	return (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) +
	       (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec) / 1e6;
}

static struct meter meter_start(void)
{
	return (struct meter){.wall_ns = clock_mono(&clock_system), .cpu_s = cpu_now()};
}

static void meter_print(const struct meter *m, const char *what, uint64_t bytes)
{
	double gb = (double)bytes / 1e9;
	double wall_s = (double)(clock_mono(&clock_system) - m->wall_ns) / NS_PER_S;

	printf("%-6s %6.2f GB/s  %5.2f CPU s/GB  (%.2f s)\n", what, gb / wall_s,
	       (cpu_now() - m->cpu_s) / gb, wall_s);
}

static void one_less(struct waiter *w)
{
	pthread_mutex_lock(&w->lock);
	w->left--;
	pthread_cond_signal(&w->changed);
	pthread_mutex_unlock(&w->lock);
}

static void wait_all(struct waiter *w)
{
	pthread_mutex_lock(&w->lock);
	while (w->left > 0)
		pthread_cond_wait(&w->changed, &w->lock);
	pthread_mutex_unlock(&w->lock);
}

static uint64_t pack_name(void *arg)
{
	return atomic_fetch_add((_Atomic uint64_t *)arg, 1);
}

static int open_file(const char *path, uint64_t bytes)
{
	static uint64_t block[MIB / 8];
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || (uint64_t)st.st_size >= bytes)
		return fd;
	for (uint64_t at = 0; at < bytes; at += MIB) {
		uint64_t x = at + UINT64_C(0x9e3779b97f4a7c15);

		for (size_t i = 0; i < MIB / 8; i++) {
			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			block[i] = x;
		}
		if (pwrite(fd, block, MIB, (off_t)at) != (ssize_t)MIB)
			return -1;
	}
	return fd;
}

static void upload_done(struct upload *u)
{
	one_less(u->arg);
}

static int upload(struct lanes *l, int fd, uint64_t bytes, unsigned files, struct extents *out)
{
	struct waiter w = {.lock = PTHREAD_MUTEX_INITIALIZER,
			   .changed = PTHREAD_COND_INITIALIZER,
			   .left = files};
	struct upload *u = calloc(files, sizeof(*u));
	struct meter m = meter_start();
	uint64_t each = bytes / files;
	int rc = 0;

	for (unsigned i = 0; i < files; i++) {
		u[i] = (struct upload){.fd = fd,
				       .off = i * each,
				       .len = each,
				       .by_content = true,
				       .urgent = true,
				       .done = upload_done,
				       .arg = &w};
		lanes_upload(l, &u[i]);
	}
	wait_all(&w);
	meter_print(&m, "out", each * files);
	for (unsigned i = 0; i < files; i++) {
		if (u[i].rc < 0)
			fprintf(stderr, "lane_bench: %s\n", u[i].fault.text);
		rc = u[i].rc < 0 ? u[i].rc : rc;
		for (size_t k = 0; k < u[i].out.n; k++)
			rc = extents_add(out, &u[i].out.v[k]) < 0 ? -1 : rc;
		free(u[i].out.v);
	}
	free(u);
	return rc;
}

static int drop(struct fetch *x, struct fetch_item *i, const uint8_t *data, size_t len)
{
	return 0;
}

static void fetch_done(struct fetch *x)
{
	one_less(x->arg);
}

static int fetch(struct lanes *l, const struct extents *from)
{
	struct waiter w = {.lock = PTHREAD_MUTEX_INITIALIZER,
			   .changed = PTHREAD_COND_INITIALIZER,
			   .left = 1};
	struct fetch x = {.items = calloc(from->n + 1, sizeof(*x.items)),
			  .deliver = drop,
			  .done = fetch_done,
			  .arg = &w};
	struct meter m = meter_start();

	for (size_t i = 0; i < from->n; i++)
		if (from->v[i].kind == EXTENT_CHUNK)
			x.items[x.n++].extent = &from->v[i];
	lanes_fetch(l, &x);
	wait_all(&w);
	meter_print(&m, "in", extents_bytes(from));
	if (x.rc < 0)
		fprintf(stderr, "lane_bench: %s\n", x.fault.text);
	free(x.items);
	return x.rc;
}

int main(int argc, char **argv)
{
	uint64_t bytes = (argc > 3 ? strtoull(argv[3], NULL, 10) : 2048) * MIB;
	unsigned files = argc > 5 ? (unsigned)atoi(argv[5]) : 1;
	scoped(store_free) struct store *store = NULL;
	scoped(lanes_free) struct lanes *lanes = NULL;
	scoped(extents_fini) struct extents x = EXTENTS_EMPTY;
	scoped(fd_close) int fd = -1;
	struct store_format format = {.format = STORE_FORMAT};
	_Atomic uint64_t names;
	struct lanes_conf conf = {.format = &format, .pack_name = pack_name, .arg = &names};
	struct fault f = FAULT_NONE;

	if (argc < 3) {
		fprintf(stderr, "usage: lane_bench URI FILE [MIB [LANES [FILES]]]\n");
		return 2;
	}
	if (getrandom(&names, sizeof(names), 0) < 0 ||
	    getrandom(format.secret, sizeof(format.secret), 0) < 0)
		return 1;
	conf.lanes = argc > 4 ? (unsigned)atoi(argv[4]) : 0;
	fd = open_file(argv[2], bytes);
	if (fd < 0) {
		perror(argv[2]);
		return 1;
	}
	if (store_new(argv[1], &store, &f) < 0 ||
	    (conf.store = store, lanes_new(&conf, &lanes, &f)) < 0) {
		fprintf(stderr, "lane_bench: %s\n", f.text);
		return 1;
	}
	return upload(lanes, fd, bytes, files, &x) < 0 || fetch(lanes, &x) < 0;
}
