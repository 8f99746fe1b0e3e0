/* SPDX-License-Identifier: Apache-2.0 */
/* See words.h. */
#include "tools/words.h"

#include <stdio.h>

#define SECONDS_MOST (10 * 365 * 86400.0)

static const char *print(char out[WORDS_MAX], double value, const char *unit)
{
	/* 9.96 would come out as 10.0. */
	(void)snprintf(out, WORDS_MAX, "%.*f %s", value < 9.95 ? 1 : 0, value, unit);
	return out;
}

const char *words_bytes(double bytes, char out[WORDS_MAX])
{
	static const char *const units[] = {"KB", "MB", "GB", "TB", "PB"};
	size_t unit = 0;

	if (bytes < 1000) {
		(void)snprintf(out, WORDS_MAX, "%.0f %s", bytes, bytes == 1 ? "byte" : "bytes");
		return out;
	}
	for (bytes /= 1000; bytes >= 999.5 && unit + 1 < sizeof(units) / sizeof(units[0]); unit++)
		bytes /= 1000;
	return print(out, bytes, units[unit]);
}

const char *words_span(double seconds, char out[WORDS_MAX])
{
	if (seconds < 120)
		return print(out, seconds, "s");
	if (seconds < 120 * 60)
		return print(out, seconds / 60, "min");
	if (seconds < 48 * 3600)
		return print(out, seconds / 3600, "h");
	return print(out, seconds / 86400, "days");
}

bool words_parse_seconds(const char *text, double *out)
{
	char *end;
	double v;

	if (text[0] != '.' && (text[0] < '0' || text[0] > '9')) /* strtod() takes much more */
		return false;
	v = strtod(text, &end);
	if (*end != '\0' || !(v > 0 && v <= SECONDS_MOST))
		return false;
	*out = v;
	return true;
}
