// SPDX-License-Identifier: BSD-3-Clause
//
// Replayers for the keys of a file of subsetting traces. Each function gets the value of a key and
// replays the cases in it.
#pragma once

#include "replay.h"

typedef void subsetting_check(struct replay *replay, const json_t *given, const void *context);

// Replays one case for each element of a list, or one case for an object. Any other value is one
// failed case.
void replay_subsetting_cases(struct replay *replay, const char *section, const json_t *cases,
	subsetting_check *check, const void *context);

void replay_subsetting_random(struct replay *replay, const json_t *section);
void replay_subsetting_fleets(struct replay *replay, const json_t *section);
void replay_subsetting_aperture(struct replay *replay, const json_t *section);
void replay_subsetting_cpython(struct replay *replay, const json_t *section);
void replay_subsetting_book(struct replay *replay, const json_t *section);
