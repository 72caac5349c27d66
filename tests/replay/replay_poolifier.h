// SPDX-License-Identifier: BSD-3-Clause
//
// What the replayers of poolifier's traces share.
#pragma once

#include "poolifier.h"
#include "replay.h"

// One case each, between replay_begin and replay_end.
void replay_poolifier_choices(
	struct replay *replay, const json_t *vector, enum weir_poolifier_strategy strategy);
void replay_poolifier_events(
	struct replay *replay, const json_t *vector, enum weir_poolifier_strategy strategy);
void replay_poolifier_statistics(struct replay *replay, const json_t *vector);
void replay_poolifier_default_weight(struct replay *replay, const json_t *vector);

// The same trace through the product, where it has these semantics (a case of its own).
void replay_poolifier_round_robin(struct replay *replay, const json_t *vector);
void replay_poolifier_least_loaded(struct replay *replay, const json_t *vector);

// "option" of a case: words such as runTime.median=true, measurement=elu.
void replay_poolifier_read_option(
	struct replay *replay, const json_t *vector, struct weir_poolifier_options *options);

// "not_ready" of a case, else what its name says (worker2_not_ready), else all of them when the
// case knows of no choice at all.
bool replay_poolifier_is_ready(const json_t *vector, uint32_t key);

// How many workers the pool of a case has, from what the case tells.
uint32_t replay_poolifier_size(struct replay *replay, const json_t *vector);
