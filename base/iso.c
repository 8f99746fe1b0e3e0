/* SPDX-License-Identifier: Apache-2.0 */
/* See iso.h. */
#include "base/iso.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* "Z", "+00:00", "-0530" or nothing, which is taken for UTC. */
static bool parse_zone(const char *s, int64_t *out_s)
{
	unsigned hours;
	unsigned minutes = 0;
	char sign;

	*out_s = 0;
	if (*s == '\0' || strcmp(s, "Z") == 0)
		return true;
	if (sscanf(s, "%c%2u:%2u", &sign, &hours, &minutes) < 3 &&
	    sscanf(s, "%c%2u%2u", &sign, &hours, &minutes) < 2)
		return false;
	*out_s = (int64_t)(hours * 3600 + minutes * 60) * (sign == '-' ? -1 : 1);
	return sign == '-' || sign == '+';
}

bool iso_time(const char *s, int64_t *out_s)
{
	struct tm tm = {.tm_isdst = 0};
	int64_t zone_s;
	int len = 0;

	if (sscanf(s, "%4d-%2d-%2dT%2d:%2d:%2d%n", &tm.tm_year, &tm.tm_mon, &tm.tm_mday,
		   &tm.tm_hour, &tm.tm_min, &tm.tm_sec, &len) != 6 ||
	    len == 0)
		return false;
	s += len;
	if (*s == '.')
		s += 1 + strspn(s + 1, "0123456789");
	if (!parse_zone(s, &zone_s))
		return false;
	tm.tm_year -= 1900;
	tm.tm_mon -= 1;
	*out_s = (int64_t)timegm(&tm) - zone_s;
	return true;
}
