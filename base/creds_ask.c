/* SPDX-License-Identifier: Apache-2.0 */
/* What the sources of credentials share: replies and token files. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/creds_source.h"
#include "base/wipe.h"

enum { TOKEN_FILE_MOST = 64 * 1024 };

/* ---- HTTP ---- */

void creds_req_fini(struct http_req *r)
{
	buf_wipe(&r->body_in);
	http_req_fini(r);
}

int64_t creds_reply_s(const struct creds_ask *a, const struct http_req *r)
{
	int64_t said_s;

	if (ask_reply_said(r, &said_s))
		return said_s;
	return clock_wall(a->clock) / (int64_t)NS_PER_S + a->skew_s;
}

int creds_status(const struct http_req *r, const char *what, struct fault *f)
{
	static const struct {
		long from;
		int code;
		enum fault_retry retry;
	} classes[] = {
		{500, -EIO,    FAULT_SOON },
		{430, -EINVAL, FAULT_FINAL},
		{429, -EBUSY,  FAULT_PACED},
		{405, -EINVAL, FAULT_FINAL},
		{404, -ENOENT, FAULT_FINAL},
		{401, -EACCES, FAULT_FINAL},
		{400, -EINVAL, FAULT_FINAL},
		{0,   -EPROTO, FAULT_FINAL}, /* a redirect, or success without what was asked */
	};
	size_t i = 0;

	while (r->status < classes[i].from)
		i++;
	return fault_set(f, classes[i].code, classes[i].retry, "%s: status %ld", what, r->status);
}

/* ---- files ---- */

static bool is_blank(uint8_t c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static void trim(struct buf *b)
{
	size_t start = 0;

	while (b->len > 0 && is_blank(b->data[b->len - 1]))
		b->len--;
	while (start < b->len && is_blank(b->data[start]))
		start++;
	if (start > 0)
		memmove(b->data, b->data + start, b->len - start);
	b->len -= start;
}

int creds_token_file(const char *path, struct buf *out, struct fault *f)
{
	scoped(fd_close) int fd = open(path, O_RDONLY | O_CLOEXEC);
	scoped(buf_wipe) struct buf text = BUF_EMPTY;
	ssize_t got = 1;

	if (fd < 0)
		return fault_errno(f, -errno, "token file %s", path);
	if (buf_reserve(&text, TOKEN_FILE_MOST) < 0)
		return fault_set(f, -ENOMEM, FAULT_SOON, "token file %s: out of memory", path);
	while (got > 0 && text.len < TOKEN_FILE_MOST) {
		got = read(fd, text.data + text.len, TOKEN_FILE_MOST - text.len);
		if (got < 0)
			return fault_errno(f, -errno, "token file %s", path);
		text.len += (size_t)got;
	}
	if (text.len == TOKEN_FILE_MOST)
		return fault_set(f, -EINVAL, FAULT_FINAL, "token file %s: too long", path);
	trim(&text);
	if (text.len == 0 || memchr(text.data, '\0', text.len))
		return fault_set(f, -EINVAL, FAULT_SOON, "token file %s: holds no token", path);
	*out = text;
	text = BUF_EMPTY;
	return 0;
}
