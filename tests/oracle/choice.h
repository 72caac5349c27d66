// SPDX-License-Identifier: BSD-3-Clause
//
// Choice: the backends of a service that the policy, the Maglev fallback or the affinity table can
// choose for a packet.
//
// Threads: one.
#pragma once

#include "trial.h"

// Returns whether the backend exists, and is not marked CLOSED. backend: also NOBODY.
bool choice_usable(const struct plan *plan, int backend);
// Returns whether the row of the backend is marked CLOSED: new flows then skip the backend, even if
// a selection still contains it.
bool choice_is_closed(const struct plan *plan, int backend);
// Returns the backend of the flow's slot. If this backend is closed, returns the backend of the
// next slot whose backend is not closed. If all backends are closed, returns the backend of the
// flow's slot. With affinity, returns trial->guess. Without a service (-1) or slots, returns
// NOBODY.
int choice_fallback(const struct trial *trial, int service);
// Finds all backends that the policy can choose and that are not closed; with Maglev, at most
// one. Returns the number of these backends. *ret_refused: whether all of them may be at their
// limit, so that the flow is rejected. service: -1 = none.
uint32_t choice_of_policy(
	const struct trial *trial, int service, int ret[PLAN_PER_SERVICE], bool *ret_refused);
