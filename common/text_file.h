// SPDX-License-Identifier: BSD-3-Clause
//
// Reads and writes whole files.
//
// Threads: any.
#pragma once

#include <stddef.h>
#include <sys/types.h>

// Read a file or pipe to its end. most: maximum length in bytes. *ret: the text, NUL-terminated,
// freed by the caller. *ret_bytes: its length. Returns 0, -EFBIG (longer than `most`), -ENOMEM, or
// the negative errno of opening or reading.
int weir_text_file_read(const char *file, size_t most, char **ret, size_t *ret_bytes);

// Read a regular file as weir_text_file_read does. If the file is not a regular file, return
// -EINVAL without waiting.
int weir_text_file_read_regular(const char *file, size_t most, char **ret, size_t *ret_bytes);

// Writes the whole text at the position of the descriptor. Returns 0 or negative errno.
int weir_text_file_write(int fd, const char *text);

// The three functions below are for the state files of a program. They do not wait for the other
// end of a pipe and do not follow a link to the file, because another user may have replaced the
// file with a pipe, a device or a link.

// Open a regular file; flags, mode: as for open(2). Returns a descriptor, owned by the caller,
// -EINVAL (not a regular file), -ELOOP (a link), or another negative errno.
int weir_text_file_open_own(const char *file, int flags, mode_t mode);

// Read a state file to its end, at most `most` bytes. *ret is NUL-terminated; the caller frees
// *ret. Returns 0, -EFBIG, -ENOMEM, an error of weir_text_file_open_own, or the negative errno of
// reading.
int weir_text_file_read_own(const char *file, size_t most, char **ret, size_t *ret_bytes);

// Replace the contents of a file with a text, or create the file. Only the user of this process can
// read the file. The function writes FILE.new and renames it, so FILE is always either the old or
// the new file, even if the process is killed. The new file is not synced to disk. Returns 0 or
// negative errno (the old file stays).
int weir_text_file_replace(const char *file, const char *text);
