/* SPDX-License-Identifier: Apache-2.0 */
/*
 * S3's documents are shallow: all that counts is the text of a leaf and the names of the root and
 * of the element around it.  So one walker over expat hands out leaves.
 */
#include "store/s3_xml.h"

#include <ctype.h>
#include <errno.h>
#include <expat.h>
#include <stdio.h>
#include <string.h>

#define NAME_MAX_BYTES 32
#define DEPTH_MOST     8
#define TEXT_MOST      8192 /* a key has 1 024 bytes, %-encoded three times that */

struct walker {
	XML_Parser parser;
	char names[DEPTH_MOST][NAME_MAX_BYTES]; /* cut: none that we know is so long */
	int depth;
	struct buf text; /* of the innermost element */
	bool bad;
	void (*leaf)(void *arg, const char *parent, const char *name, const char *text);
	void *arg;
};

static void give_up(struct walker *w)
{
	w->bad = true;
	(void)XML_StopParser(w->parser, XML_FALSE); /* fails only if stopped already */
}

static void start_element(void *arg, const char *name, const char **attributes)
{
	struct walker *w = arg;

	if (w->depth == DEPTH_MOST) {
		give_up(w);
		return;
	}
	(void)snprintf(w->names[w->depth++], NAME_MAX_BYTES, "%s", name); /* cut, see above */
	w->text.len = 0;
}

static void end_element(void *arg, const char *name)
{
	struct walker *w = arg;

	w->depth--;
	w->leaf(w->arg, w->depth > 0 ? w->names[w->depth - 1] : "", name, buf_str(&w->text));
	w->text.len = 0;
}

static void characters(void *arg, const char *text, int len)
{
	struct walker *w = arg;

	if (w->text.len + (size_t)len > TEXT_MOST)
		give_up(w);
	else
		buf_add(&w->text, text, (size_t)len);
}

/* No document of S3 has one, and entities are only trouble. */
static void doctype(void *arg, const char *name, const char *system, const char *public, int subset)
{
	give_up(arg);
}

/* The root's name into root.  0, -EPROTO, -ENOMEM. */
static int walk(struct walker *w, const char *data, size_t len, char root[NAME_MAX_BYTES])
{
	bool whole;

	while (len > 0 && isspace((unsigned char)*data)) { /* sent to keep the connection alive */
		data++;
		len--;
	}
	w->parser = XML_ParserCreate(NULL);
	if (!w->parser)
		return -ENOMEM;
	XML_SetUserData(w->parser, w);
	XML_SetElementHandler(w->parser, start_element, end_element);
	XML_SetCharacterDataHandler(w->parser, characters);
	XML_SetStartDoctypeDeclHandler(w->parser, doctype);
	whole = XML_Parse(w->parser, data, (int)len, 1) == XML_STATUS_OK;
	(void)snprintf(root, NAME_MAX_BYTES, "%s", w->names[0]); /* was cut already */
	XML_ParserFree(w->parser);
	if (!buf_ok(&w->text))
		return -ENOMEM;
	return whole && !w->bad ? 0 : -EPROTO;
}

/* ---- errors ---- */

static void copy(char *out, size_t cap, const char *text)
{
	(void)snprintf(out, cap, "%s", text); /* cut, as promised */
}

static void error_leaf(void *arg, const char *parent, const char *name, const char *text)
{
	struct s3_error *e = arg;

	if (strcmp(parent, "Error") != 0)
		return;
	if (strcmp(name, "Code") == 0)
		copy(e->code, sizeof(e->code), text);
	else if (strcmp(name, "Message") == 0)
		copy(e->message, sizeof(e->message), text);
	else if (strcmp(name, "Region") == 0)
		copy(e->region, sizeof(e->region), text);
}

bool s3_xml_error(const void *data, size_t len, struct s3_error *out)
{
	struct walker w = {.leaf = error_leaf, .arg = out};
	char root[NAME_MAX_BYTES] = "";

	*out = (struct s3_error){.code = ""};
	if (len > 0)
		(void)walk(&w, data, len, root); /* what was read before it broke is worth having */
	buf_fini(&w.text);
	return strcmp(root, "Error") == 0;
}

/* ---- pages ---- */

struct page_reader {
	struct s3_page *page;
	bool encoded; /* <EncodingType>url: not every server does as it was asked */
};

static int digit_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static void add_decoded(struct buf *b, const char *text)
{
	for (; *text; text++) {
		char c = *text == '+' ? ' ' : *text;

		if (c == '%' && digit_of(text[1]) >= 0 && digit_of(text[2]) >= 0) {
			c = (char)(digit_of(text[1]) << 4 | digit_of(text[2]));
			text += 2;
		}
		buf_add(b, &c, 1);
	}
}

static void page_leaf(void *arg, const char *parent, const char *name, const char *text)
{
	struct page_reader *r = arg;
	struct s3_page *p = r->page;

	if (strcmp(parent, "Contents") == 0 && strcmp(name, "Key") == 0) {
		buf_add(&p->keys, text, strlen(text) + 1);
	} else if (strcmp(parent, "ListBucketResult") != 0) {
		return;
	} else if (strcmp(name, "EncodingType") == 0) {
		r->encoded = strcmp(text, "url") == 0;
	} else if (strcmp(name, "IsTruncated") == 0) {
		p->truncated = strcmp(text, "true") == 0;
	} else if (strcmp(name, "NextContinuationToken") == 0) {
		p->token.len = 0;
		buf_add(&p->token, text, strlen(text) + 1);
	}
}

/* EncodingType may stand behind the keys: they are decoded at the end. */
static void decode_keys(struct s3_page *p)
{
	struct buf raw = p->keys;
	const char *text = (const char *)raw.data;

	p->keys = BUF_EMPTY;
	for (size_t at = 0; at < raw.len; at += strlen(text + at) + 1) {
		add_decoded(&p->keys, text + at);
		buf_add(&p->keys, "", 1);
	}
	if (!buf_ok(&raw))
		p->keys.failed = true;
	buf_fini(&raw);
}

int s3_xml_page(const void *data, size_t len, struct s3_page *out)
{
	scoped(s3_page_fini) struct s3_page p = S3_PAGE_EMPTY;
	struct page_reader r = {.page = &p};
	struct walker w = {.leaf = page_leaf, .arg = &r};
	char root[NAME_MAX_BYTES] = "";
	int rc = walk(&w, data, len, root);

	buf_fini(&w.text);
	if (rc < 0)
		return rc;
	if (strcmp(root, "ListBucketResult") != 0)
		return -EPROTO;
	if (r.encoded)
		decode_keys(&p);
	if (!buf_ok(&p.keys) || !buf_ok(&p.token))
		return -ENOMEM;
	*out = p;
	p = S3_PAGE_EMPTY;
	return 0;
}

void s3_page_fini(struct s3_page *p)
{
	buf_fini(&p->keys);
	buf_fini(&p->token);
}
