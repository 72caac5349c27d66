// SPDX-License-Identifier: BSD-3-Clause
//
// Tests that the helper process for steals reports why it cannot start.
#include <errno.h>
#include <poll.h>
#include <sys/capability.h>
#include <sys/wait.h>
#include <unistd.h>

#include "steal_helper.h"
#include "test.h"

#define NOBODY 65534

// Receive the first answer of the helper. Check that no other answer follows.
static int take(int fd, struct weir_steal_helper_answer *ret) {
	struct weir_steal_helper_answer more;
	struct pollfd ready = {.fd = fd, .events = POLLIN};
	int r;

	if (poll(&ready, 1, 10000) != 1) {
		return -ETIMEDOUT;
	}
	r = weir_steal_helper_answer(fd, ret);
	if (r == 0 &&
		(poll(&ready, 1, 10000) != 1 || weir_steal_helper_answer(fd, &more) != -EPIPE)) {
		return -EBUSY;
	}
	return r;
}

static int start(int *ret) {
	static const uint16_t ports[] = {80};
	static const struct weir_run_as user = {.uid = NOBODY, .gid = NOBODY, .change = true};
	const struct weir_steal_helper_params params = {
		.ports = ports, .port_count = 1, .user = &user};

	return weir_steal_helper_start(&params, ret);
}

static int without_the_power_to_become_a_user(void) {
	static const cap_value_t kept[] = {CAP_NET_ADMIN};
	struct weir_steal_helper_answer answer;
	cap_t set = cap_init();
	int fd;

	if (set == NULL || cap_set_flag(set, CAP_PERMITTED, 1, kept, CAP_SET) ||
		cap_set_flag(set, CAP_EFFECTIVE, 1, kept, CAP_SET) || cap_set_proc(set) ||
		start(&fd) || take(fd, &answer)) {
		return 1;
	}
	return answer.number == 0 && answer.error == -EPERM &&
			       answer.step == WEIR_STEAL_HELPER_PRIVILEGES
		       ? 0
		       : 2;
}

TEST(helper_reports_missing_privileges) {
	int status;
	pid_t child;

	if (geteuid() != 0) {
		skip();
	}
	child = fork(); // this child drops its privileges
	assert_true(child >= 0);
	if (child == 0) {
		_exit(without_the_power_to_become_a_user());
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}
