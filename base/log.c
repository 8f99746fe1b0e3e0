/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines: one write(2) a line, so lines of several threads and processes do not mix. */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <syslog.h>
#include <unistd.h>

/* The one piece of state at file scope: set before other threads start, only read after. */
static struct {
	const char *program;
	enum log_level most;
	int to_syslog;
} setup = {.program = "holdfast", .most = LOG_LEVEL_INFO};

static const struct {
	int priority;
	const char *word;
} levels[] = {
	[LOG_LEVEL_ERROR] = {LOG_ERR, ""},
	[LOG_LEVEL_WARN] = {LOG_WARNING, "warning: "},
	[LOG_LEVEL_INFO] = {LOG_INFO, ""},
	[LOG_LEVEL_DEBUG] = {LOG_DEBUG, "debug: "},
};

void log_setup(const char *program, enum log_level most, int to_syslog)
{
	setup.program = program;
	setup.most = most;
	setup.to_syslog = to_syslog;
	if (to_syslog)
		openlog(program, LOG_PID, LOG_DAEMON);
}

/* File names and server answers are in our lines: none may forge a second line. */
static void defuse(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			*text = '?';
}

void log_at(enum log_level level, const char *fmt, ...)
{
	char text[1024];
	char line[sizeof(text) + 128];
	va_list ap;
	int len;

	if (level > setup.most)
		return;
	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap); /* a longer line is cut */
	va_end(ap);
	defuse(text);
	if (setup.to_syslog) {
		syslog(levels[level].priority, "%s%s", levels[level].word, text);
		return;
	}
	len = snprintf(line, sizeof(line), "%.64s: %s%s\n", setup.program, levels[level].word,
		       text);
	if (len > 0 && write(STDERR_FILENO, line, (size_t)len) < 0)
		return; /* nowhere left to say it */
}
