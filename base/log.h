/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One line an event, to stderr (or syslog once a daemon has let go of its terminal).  Only edges
 * print: a FUSE reply, a loop handler, main.  Never pass a secret, a token or a signed URL.
 */
#ifndef HOLDFAST_BASE_LOG_H
#define HOLDFAST_BASE_LOG_H

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/* Before other threads start.  `to_syslog` ends the use of stderr; */
void log_setup(const char *program, enum log_level most, int to_syslog);
void log_at(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...) log_at(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warn(...)  log_at(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_info(...)  log_at(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_at(LOG_LEVEL_DEBUG, __VA_ARGS__)

#endif
