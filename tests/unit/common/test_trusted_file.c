// SPDX-License-Identifier: BSD-3-Clause
#include "trusted_file.h"

#include <unistd.h>

#include "test.h"

TEST(trusted_file_is_changed_by_root_and_its_own_user_only) {
	const uid_t own = geteuid(), other = own + 1;
	const struct {
		uid_t user;
		gid_t group;
		mode_t mode;
		bool others_write, is_trusted;
	} rows[] = {
		{0, 0, 0755, false, true},
		{own, 5, 0755, false, true},
		{other, 0, 0755, false, false},
		{0, 0, 0775, false, true}, // the group of root
		{0, 5, 0775, true, false},
		{own, 5, 0664, true, false},
		{0, 0, 0757, true, false},
		{other, 5, 0777, true, false},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct stat file = {.st_uid = rows[i].user,
			.st_gid = rows[i].group,
			.st_mode = S_IFREG | rows[i].mode};

		assert_int_equal(weir_file_others_write(&file), rows[i].others_write);
		assert_int_equal(weir_file_is_trusted(&file), rows[i].is_trusted);
	}
}
