// SPDX-License-Identifier: BSD-3-Clause
//
// A line of ipvsadm: splits it into words, and reads its options.
//
// Threads: any; no shared state.
#pragma once

#include <stdbool.h>

#include "import.h"

#define WEIR_IPVS_WORDS_MAX 64
#define WEIR_IPVS_USE "use the output of ipvsadm-save -n (ipvsadm -S -n)"

// Characters that identify options. An option without a short form in ipvsadm gets an unused
// character.
enum weir_ipvs_letter {
	WEIR_IPVS_SCTP = 1,
	WEIR_IPVS_PERSISTENCE_ENGINE,
	WEIR_IPVS_TUN_TYPE,
	WEIR_IPVS_TUN_PORT,
	WEIR_IPVS_TUN_NOCSUM,
	WEIR_IPVS_TUN_CSUM,
	WEIR_IPVS_TUN_REMCSUM,
	WEIR_IPVS_SET,
	WEIR_IPVS_DAEMON,
	WEIR_IPVS_MCAST,
	WEIR_IPVS_SYNCID,
};

struct weir_ipvs_line { // a line of the source
	struct weir_import_place place;
	// index: letter of the option; "" = the option has no value, NULL = the option is not in
	// the line
	const char *value[128];
	const char *timeouts[3]; // the three values of --set
};

// Split a line into words, without quotes and comments. Returns the number of words, or -1 if there
// are too many. The words are parts of the line.
int weir_ipvs_line_cut(char *line, char *words[WEIR_IPVS_WORDS_MAX]);
// Reads the options in the words of a line, which are borrowed. Returns false after an error.
bool weir_ipvs_line_read(
	struct weir_import *import, char *const *list, int count, struct weir_ipvs_line *line);
