/* SPDX-License-Identifier: Apache-2.0 */
/* What systemd wants to hear of a service of Type=notify; see sd_notify(3).  Thread: any. */
#ifndef HOLDFAST_FS_SUPERVISOR_H
#define HOLDFAST_FS_SUPERVISOR_H

/*
 * One datagram of assignments, "READY=1\nSTATUS=...", to where NOTIFY_SOCKET says.  Without that, or
 * where nobody listens, nothing happens.
 */
void supervisor_tell(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
