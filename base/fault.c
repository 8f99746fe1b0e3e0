/* SPDX-License-Identifier: Apache-2.0 */
/* Faults: formatted in place, so that running out of memory can be reported too. */
#include "base/fault.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int fault_set(struct fault *f, int code, enum fault_retry retry, const char *fmt, ...)
{
	char text[sizeof(f->text)]; /* an argument may be f->text itself */
	va_list ap;

	if (!f)
		return code;
	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap); /* a text too long is cut, as promised */
	va_end(ap);
	f->code = code;
	f->retry = retry;
	memcpy(f->text, text, sizeof(text));
	return code;
}

int fault_in(struct fault *f, const char *fmt, ...)
{
	char what[sizeof(f->text)];
	va_list ap;

	if (!f)
		return -EIO;
	va_start(ap, fmt);
	(void)vsnprintf(what, sizeof(what), fmt, ap); /* cut, as promised */
	va_end(ap);
	return fault_set(f, f->code, f->retry, "%s: %s", what, f->text);
}

int fault_errno(struct fault *f, int code, const char *fmt, ...)
{
	char text[sizeof(f->text)];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap); /* cut, as promised */
	va_end(ap);
	return fault_set(f, code, FAULT_FINAL, "%s: %s", text, strerror(-code));
}
