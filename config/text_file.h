// SPDX-License-Identifier: BSD-3-Clause
//
// Reads and writes whole files.
//
// Threads: any.
#pragma once

#include <stddef.h>

// Read a file or pipe to its end, at most `most` bytes. *ret is NUL-terminated; the caller frees
// it. Returns 0, -EFBIG, -ENOMEM, or the negative errno of opening or reading.
int weir_text_file_read(const char *file, size_t most, char **ret, size_t *ret_bytes);

// The same, but -EINVAL without waiting if it is not a regular file.
int weir_text_file_read_regular(const char *file, size_t most, char **ret, size_t *ret_bytes);

// Write text at the file's position, whole. Returns 0 or negative errno.
int weir_text_file_write(int fd, const char *text);
