/* SPDX-License-Identifier: Apache-2.0 */
/* S3's answers.  A row is all there is to say about one; the first that fits counts. */
#include "store/s3_answer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define ANY (-1)

#define CHECK_KEY "check the access key: AWS_ACCESS_KEY_ID or the profile"
#define CHECK_SECRET "check the secret key: AWS_SECRET_ACCESS_KEY or the profile"
#define CHECK_TOKEN "check AWS_SESSION_TOKEN or get new credentials"
#define CHECK_REGION "set AWS_REGION to the bucket's region"
#define CHECK_CLOCK "set this machine's clock"
#define CHECK_ENDPOINT "check AWS_ENDPOINT_URL: it does not speak S3"
#define CHECK_PROXY "check the proxy in HTTPS_PROXY"
#define CHECK_BUCKET "check the bucket's name, or create it"
#define TOO_SHORT "the object is shorter than it should be"
#define NOT_ALLOWED "its policy or the credentials' does not allow this"
#define FREE_SPACE "free some space there, or raise its quota"

static const struct row {
	long from, to;    /* status */
	const char *code; /* NULL: whatever S3 calls it */
	int op;           /* enum object_op, or ANY */
	struct s3_verdict verdict;
} rows[] = {
	/* by name, whatever the status is: a 200 too may carry an error */
	{0, 599, "ExpiredToken", ANY, {-EKEYEXPIRED, FAULT_SOON, S3_FIX_KEYS, CHECK_TOKEN}},
	{0, 599, "TokenRefreshRequired", ANY, {-EKEYEXPIRED, FAULT_SOON, S3_FIX_KEYS, CHECK_TOKEN}},
	{0, 599, "RequestTimeTooSkewed", ANY, {-EACCES, FAULT_SOON, S3_FIX_CLOCK, CHECK_CLOCK}},
	{0, 599, "AuthorizationHeaderMalformed", ANY,
	 {-EACCES, FAULT_SOON, S3_FIX_REGION, CHECK_REGION}},
	{0, 599, "IncorrectEndpoint", ANY, {-EACCES, FAULT_SOON, S3_FIX_REGION, CHECK_REGION}},
	{0, 599, "PermanentRedirect", ANY, {-ELOOP, FAULT_SOON, S3_FIX_REGION, CHECK_REGION}},
	{0, 599, "TemporaryRedirect", ANY, {-ELOOP, FAULT_SOON, S3_FIX_REGION, CHECK_REGION}},
	{0, 599, "NoSuchBucket", ANY, {-ENODEV, FAULT_FINAL, S3_FIX_NONE, CHECK_BUCKET}},
	{0, 599, "NoSuchKey", OBJECT_DELETE, {0, FAULT_FINAL, S3_FIX_NONE, ""}},
	{0, 599, "NoSuchKey", ANY, {-ENOENT, FAULT_FINAL, S3_FIX_NONE, ""}},
	{0, 599, "InvalidAccessKeyId", ANY, {-EACCES, FAULT_FINAL, S3_FIX_NONE, CHECK_KEY}},
	{0, 599, "XAdminUserNotFound", ANY, {-EACCES, FAULT_FINAL, S3_FIX_NONE, CHECK_KEY}},
	{0, 599, "SignatureDoesNotMatch", ANY, {-EACCES, FAULT_FINAL, S3_FIX_NONE, CHECK_SECRET}},
	{0, 599, "InvalidToken", ANY, {-EACCES, FAULT_FINAL, S3_FIX_NONE, CHECK_TOKEN}},
	{0, 599, "RequestTimeout", ANY, {-ETIMEDOUT, FAULT_SOON, S3_FIX_NONE, ""}},
	{0, 599, "IncompleteBody", ANY, {-EBADMSG, FAULT_SOON, S3_FIX_BODY, ""}},
	{0, 599, "BadDigest", ANY, {-EBADMSG, FAULT_SOON, S3_FIX_BODY, ""}},
	{0, 599, "XAmzContentChecksumMismatch", ANY, {-EBADMSG, FAULT_SOON, S3_FIX_BODY, ""}},
	{0, 599, "SlowDown", ANY, {-EBUSY, FAULT_PACED, S3_FIX_NONE, ""}},
	{0, 599, "ServiceUnavailable", ANY, {-EBUSY, FAULT_PACED, S3_FIX_NONE, ""}},
	{0, 599, "InternalError", ANY, {-EREMOTEIO, FAULT_SOON, S3_FIX_NONE, ""}},
	{0, 599, "OperationAborted", ANY, {-EAGAIN, FAULT_SOON, S3_FIX_NONE, ""}},
	{0, 599, "ConditionalRequestConflict", ANY, {-EAGAIN, FAULT_SOON, S3_FIX_NONE, ""}},
	{0, 599, "PreconditionFailed", ANY, {-EEXIST, FAULT_RELOAD, S3_FIX_NONE, ""}},
	{0, 599, "QuotaExceeded", ANY, {-EDQUOT, FAULT_FINAL, S3_FIX_NONE, FREE_SPACE}},
	{0, 599, "XMinioStorageFull", ANY, {-ENOSPC, FAULT_FINAL, S3_FIX_NONE, FREE_SPACE}},
	{0, 599, "NotImplemented", ANY, {-ENOTSUP, FAULT_FINAL, S3_FIX_NONE, ""}},
	/* by status */
	{200, 299, NULL, ANY, {-EREMOTEIO, FAULT_SOON, S3_FIX_NONE, ""}},
	{304, 304, NULL, OBJECT_PUT, {-EEXIST, FAULT_RELOAD, S3_FIX_NONE, ""}}, /* MinIO, for 412 */
	{301, 308, NULL, ANY, {-ELOOP, FAULT_SOON, S3_FIX_REGION, CHECK_REGION}},
	{401, 401, NULL, ANY, {-EACCES, FAULT_FINAL, S3_FIX_NONE, NOT_ALLOWED}},
	{403, 403, NULL, ANY, {-EACCES, FAULT_FINAL, S3_FIX_NONE, NOT_ALLOWED}},
	/* A 404 of another name is no statement about the key. */
	{404, 404, "", OBJECT_LIST, {-ENODEV, FAULT_FINAL, S3_FIX_NONE, CHECK_BUCKET}},
	{404, 404, "", OBJECT_DELETE, {0, FAULT_FINAL, S3_FIX_NONE, ""}},
	{404, 404, "", ANY, {-ENOENT, FAULT_FINAL, S3_FIX_NONE, ""}},
	{405, 405, NULL, ANY, {-ENOTSUP, FAULT_FINAL, S3_FIX_NONE, CHECK_ENDPOINT}},
	{407, 407, NULL, ANY, {-EACCES, FAULT_FINAL, S3_FIX_NONE, CHECK_PROXY}},
	{408, 408, NULL, ANY, {-ETIMEDOUT, FAULT_SOON, S3_FIX_NONE, ""}},
	{409, 409, NULL, ANY, {-EAGAIN, FAULT_SOON, S3_FIX_NONE, ""}},
	{412, 412, NULL, ANY, {-EEXIST, FAULT_RELOAD, S3_FIX_NONE, ""}},
	{416, 416, NULL, ANY, {-EIO, FAULT_FINAL, S3_FIX_NONE, TOO_SHORT}},
	{429, 429, NULL, ANY, {-EBUSY, FAULT_PACED, S3_FIX_NONE, ""}},
	{400, 499, NULL, ANY, {-EINVAL, FAULT_FINAL, S3_FIX_NONE, ""}},
	{501, 501, NULL, ANY, {-ENOTSUP, FAULT_FINAL, S3_FIX_NONE, ""}},
	{503, 503, NULL, ANY, {-EBUSY, FAULT_PACED, S3_FIX_NONE, ""}},
	{507, 507, NULL, ANY, {-ENOSPC, FAULT_FINAL, S3_FIX_NONE, FREE_SPACE}},
	{500, 599, NULL, ANY, {-EREMOTEIO, FAULT_SOON, S3_FIX_NONE, ""}},
};

static bool fits(const struct row *r, enum object_op op, long status, const char *code)
{
	return status >= r->from && status <= r->to && (r->op == ANY || r->op == (int)op) &&
	       (!r->code || strcmp(r->code, code) == 0);
}

const struct s3_verdict *s3_judge(enum object_op op, long status, const char *code)
{
	static const struct s3_verdict nonsense = {-EPROTO, FAULT_FINAL, S3_FIX_NONE,
						   CHECK_ENDPOINT};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (fits(&rows[i], op, status, code))
			return &rows[i].verdict;
	return &nonsense;
}

/* strptime() would read the names of months in the user's language. */
static int month_of(const char *name)
{
	static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
	const char *at = strlen(name) == 3 ? strstr(months, name) : NULL;

	return at && (at - months) % 3 == 0 ? (int)(at - months) / 3 : -1;
}

int64_t s3_date(const char *text)
{
	struct tm tm = {.tm_isdst = 0};
	char month[4] = "";
	const char *comma = strchr(text, ',');

	if (!comma || sscanf(comma + 1, " %2d %3[A-Za-z] %4d %2d:%2d:%2d GMT", &tm.tm_mday, month,
			     &tm.tm_year, &tm.tm_hour, &tm.tm_min, &tm.tm_sec) != 6)
		return -1;
	tm.tm_mon = month_of(month);
	tm.tm_year -= 1900;
	return tm.tm_mon < 0 || tm.tm_year < 70 ? -1 : timegm(&tm);
}

static bool read_number(const char **at, uint64_t *out)
{
	uint64_t v = 0;
	const char *s = *at;

	for (; *s >= '0' && *s <= '9'; s++)
		if (__builtin_mul_overflow(v, 10, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(*s - '0'), &v))
			return false;
	if (s == *at)
		return false;
	*at = s;
	*out = v;
	return true;
}

bool s3_content_range(const char *text, uint64_t *first, uint64_t *last, uint64_t *total)
{
	uint64_t a, b, n = 0;

	if (strncmp(text, "bytes ", 6) != 0)
		return false;
	text += 6;
	if (!read_number(&text, &a) || *text++ != '-' || !read_number(&text, &b) || *text++ != '/')
		return false;
	if (strcmp(text, "*") != 0 && (!read_number(&text, &n) || *text))
		return false;
	*first = a;
	*last = b;
	*total = n;
	return true;
}
