// SPDX-License-Identifier: BSD-3-Clause
#include "trusted_file.h"

#include <unistd.h>

bool weir_file_others_write(const struct stat *file) {
	return (file->st_mode & S_IWOTH) != 0 ||
	       ((file->st_mode & S_IWGRP) != 0 && file->st_gid != 0);
}

bool weir_file_is_trusted(const struct stat *file) {
	return (file->st_uid == 0 || file->st_uid == geteuid()) && !weir_file_others_write(file);
}
