/* SPDX-License-Identifier: Apache-2.0 */
/* Which cloud is this?  The firmware's tables say so at once, and ask nobody. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/notice/source.h"

enum { TEXT_MOST = 128 };

static const struct sign {
	const char *file, *text;
	enum notice_where where;
} signs[] = {
	{"sys_vendor",        "Amazon EC2",                        NOTICE_AT_EC2  },
	{"bios_version",      "amazon",                            NOTICE_AT_EC2  }, /* Xen */
	{"product_name",      "Google Compute Engine",             NOTICE_AT_GCP  },
	{"chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77", NOTICE_AT_AZURE},
};

static bool read_table(const char *dmi, const char *file, char text[TEXT_MOST])
{
	char path[512];
	scoped(fd_close) int fd = -1;
	ssize_t got;

	(void)snprintf(path, sizeof(path), "%s/%s", dmi, file); /* one that is cut is not there */
	fd = open(path, O_RDONLY | O_CLOEXEC);
	got = fd < 0 ? -1 : read(fd, text, TEXT_MOST - 1);
	if (got < 0)
		return false;
	text[got] = '\0';
	return true;
}

enum notice_where where_by_firmware(const char *dmi)
{
	char text[TEXT_MOST];
	bool any = false;

	for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++) {
		if (!read_table(dmi, signs[i].file, text))
			continue;
		if (strstr(text, signs[i].text))
			return signs[i].where;
		any = true;
	}
	return any ? NOTICE_NOWHERE : NOTICE_AUTO;
}
