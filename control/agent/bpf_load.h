// SPDX-License-Identifier: BSD-3-Clause
//
// BPF loading: functions shared by the loaders of BPF programs.
//
// Threads: one. No logging.
#pragma once

#include <bpf/libbpf.h>
#include <stddef.h>
#include <stdint.h>

// Suppress the messages of libbpf. Returns the previous print function; restore it with
// libbpf_set_print.
libbpf_print_fn_t weir_bpf_quiet(void);

// Fill in the constants of bpf/socket.h: this network namespace, and a bitmap with one bit for each
// port number. ret_words: the bitmap, 1,024 words, which the caller sets to 0. Returns 0 or
// negative errno.
int weir_bpf_set_sockets(
	const uint16_t *ports, uint32_t port_count, uint32_t *ret_namespace, uint64_t *ret_words);

// Writes into `why` why a BPF program cannot be loaded: missing permissions, no BTF, or the error.
// error: negative errno. Returns why.
const char *weir_bpf_explain(int error, char *why, size_t why_bytes);
