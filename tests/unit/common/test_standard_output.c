// SPDX-License-Identifier: BSD-3-Clause
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "standard_output.h"
#include "test.h"

// If a process is started without standard descriptors, the next descriptors that it opens must not
// get the numbers 0 to 2, and output must fail.
TEST(missing_descriptors_are_claimed) {
	for (int missing = 0; missing < 8; missing++) {
		pid_t child = fork();
		int status;

		assert_true(child >= 0);
		if (child == 0) {
			for (int fd = 0; fd <= STDERR_FILENO; fd++) {
				if ((missing >> fd & 1) != 0) {
					close(fd);
				}
			}
			weir_standard_output_claim();
			for (int fd = 0; fd <= STDERR_FILENO; fd++) {
				if (fcntl(fd, F_GETFD) < 0) {
					_exit(1);
				}
			}
			if ((missing >> STDOUT_FILENO & 1) != 0 &&
				write(STDOUT_FILENO, "", 1) >= 0) {
				_exit(2);
			}
			_exit(open("/", O_RDONLY) > STDERR_FILENO ? 0 : 3);
		}
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_int_equal(status, 0);
	}
}
