// SPDX-License-Identifier: BSD-3-Clause
#include "attachment.h"

void weir_attachment_update(struct weir_attachment *attachment, const struct weir_log *log, int pid,
	bool has_tables, uint64_t now_ms) {
	if (pid != attachment->pid) {
		if (attachment->is_logged) {
			weir_log_write(log, WEIR_LOG_WARN, "weir-control detached (pid %d); %s",
				attachment->pid,
				has_tables ? "forwarding continues with its last tables"
					   : "there are no tables: no packet is forwarded");
		}
		attachment->pid = pid;
		attachment->since_ms = now_ms;
		attachment->is_logged = false;
	}
	if (pid == 0 || attachment->is_logged ||
		(pid == attachment->logged_pid &&
			now_ms - attachment->since_ms < WEIR_ATTACHMENT_LASTS_MS)) {
		return;
	}
	weir_log_write(log, WEIR_LOG_INFO, "weir-control attached (pid %d)", pid);
	attachment->logged_pid = pid;
	attachment->is_logged = true;
}
