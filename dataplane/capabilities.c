// SPDX-License-Identifier: BSD-3-Clause
#include "capabilities.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <semaphore.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define WAIT_S 5
#define REQUEST (SIGRTMAX - 1) // no library in this process uses this signal

int weir_capabilities_freeze(void) {
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : 0;
}

// Drops all capabilities of the calling thread. If keep_net_admin is set, CAP_NET_ADMIN remains
// permitted and effective. The function makes only system calls, so that it can run in a signal
// handler. Returns 0 or negative errno.
static int drop(bool keep_net_admin) {
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

	if (syscall(SYS_capget, &header, data) < 0) {
		return -errno;
	}
	// Keep only a capability that the thread already has: capset cannot add capabilities.
	for (unsigned int i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
		data[i].permitted &= keep_net_admin && i == CAP_TO_INDEX(CAP_NET_ADMIN)
					     ? CAP_TO_MASK(CAP_NET_ADMIN)
					     : 0;
		data[i].effective = data[i].permitted;
		data[i].inheritable = 0;
	}
	return syscall(SYS_capset, &header, data) < 0 ? -errno : 0;
}

// --- other threads ------------------------------------------------------------------------

// The argument of the signal handler, and the semaphore that it posts. Only one call to
// weir_capabilities_drop_everywhere uses them at a time.
static struct {
	bool keep_net_admin;
	sem_t done;
} request;

static void on_request(int signal) {
	int saved = errno;

	(void)signal;
	(void)drop(request.keep_net_admin); // check_threads later reads the thread's capabilities
	sem_post(&request.done);
	errno = saved;
}

// Sends a thread the signal to drop its capabilities, and waits until the signal handler has run.
// Returns 0 if the handler has run, or if the thread has exited before the signal; otherwise
// -ETIMEDOUT or another negative errno.
static int send_request(pid_t thread) {
	struct timespec deadline;

	if (tgkill(getpid(), thread, REQUEST) < 0) {
		return errno == ESRCH ? 0 : -errno;
	}
	clock_gettime(CLOCK_REALTIME, &deadline);
	deadline.tv_sec += WAIT_S;
	while (sem_timedwait(&request.done, &deadline) < 0) {
		if (errno != EINTR) {
			return -errno;
		}
	}
	return 0;
}

// Returns the permitted capabilities of a thread, from its status file. Returns 0 if the thread has
// exited, before or during the call, and all capabilities if the file cannot be read.
static uint64_t capabilities_of(const char *thread) {
	uint64_t capabilities = UINT64_MAX;
	char line[320];
	FILE *file;

	snprintf(line, sizeof(line), "/proc/self/task/%s/status", thread);
	file = fopen(line, "re");
	if (file == NULL) {
		return errno == ENOENT ? 0 : capabilities; // the thread has exited
	}
	while (fgets(line, sizeof(line), file) != NULL) {
		if (sscanf(line, "CapPrm: %" SCNx64, &capabilities) == 1) {
			break;
		}
	}
	if (ferror(file) && errno == ESRCH) { // the thread has exited since fopen
		capabilities = 0;
	}
	fclose(file);
	return capabilities;
}

// Count the threads that have more than the allowed capabilities. send: also send these threads the
// signal to drop their capabilities. Returns the number of these threads, or negative errno.
static int check_threads(bool keep_net_admin, bool send) {
	uint64_t allowed = keep_net_admin ? UINT64_C(1) << CAP_NET_ADMIN : 0;
	DIR *folder = opendir("/proc/self/task");
	struct dirent *entry;
	int r = 0, found = 0;

	if (folder == NULL) {
		return -errno;
	}
	while (r == 0 && (entry = readdir(folder)) != NULL) {
		if (entry->d_name[0] == '.' || (capabilities_of(entry->d_name) & ~allowed) == 0) {
			continue;
		}
		found++;
		if (send) {
			r = send_request((pid_t)atoi(entry->d_name));
		}
	}
	closedir(folder);
	return r < 0 ? r : found;
}

int weir_capabilities_drop_everywhere(bool keep_net_admin) {
	struct sigaction action = {.sa_handler = on_request, .sa_flags = SA_RESTART}, before;
	int r = drop(keep_net_admin);

	if (r < 0) {
		return r;
	}
	request.keep_net_admin = keep_net_admin;
	sem_init(&request.done, 0, 0);
	if (sigaction(REQUEST, &action, &before) < 0) {
		r = -errno;
		goto destroy;
	}
	r = check_threads(keep_net_admin, true);
	if (r > 0) {
		r = check_threads(keep_net_admin, false);
	}
	// After a timeout, keep the handler and the semaphore: the thread may still run the
	// handler.
	if (r == -ETIMEDOUT) {
		return r;
	}
	sigaction(REQUEST, &before, NULL);
destroy:
	sem_destroy(&request.done);
	return r > 0 ? -EPERM : r;
}
