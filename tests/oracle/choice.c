// SPDX-License-Identifier: BSD-3-Clause
#include "choice.h"

#include "layout.h"

bool choice_usable(const struct plan *plan, int backend) {
	return backend != NOBODY && plan->backends[backend].present &&
	       (plan->backends[backend].path.state & WEIR_BACKEND_CLOSED) == 0;
}

bool choice_is_closed(const struct plan *plan, int backend) {
	return plan->backends[backend].present &&
	       (plan->backends[backend].path.state & WEIR_BACKEND_CLOSED) != 0;
}

int choice_fallback(const struct trial *trial, int service) {
	const struct plan *plan = trial->plan;
	const struct plan_service *s = &plan->services[service < 0 ? 0 : service];
	uint32_t slot = (uint32_t)((trial->seen->hash >> 32) * s->slot_count >> 32);

	if (service >= 0 && s->affine) {
		return trial->guess;
	}
	if (service < 0 || s->slot_count == 0) {
		return NOBODY;
	}
	for (uint32_t i = 0; i < s->slot_count; i++) {
		int backend = s->candidates[s->slots[(slot + i) % s->slot_count]];

		if (!choice_is_closed(plan, backend)) {
			return backend;
		}
	}
	return s->candidates[s->slots[slot]];
}

uint32_t choice_of_policy(
	const struct trial *trial, int service, int ret[PLAN_PER_SERVICE], bool *ret_refused) {
	const struct plan_service *s = &trial->plan->services[service < 0 ? 0 : service];
	uint32_t n = 0, open = 0;

	*ret_refused = service >= 0 && s->limit > 0;
	if (service < 0) {
		return 0;
	}
	if (s->policy == WEIR_POLICY_MAGLEV && s->slot_count > 0) {
		ret[0] = choice_fallback(trial, service);
		return choice_is_closed(trial->plan, ret[0]) ? 0 : 1;
	}
	for (uint32_t i = 0; i < s->member_count; i++) {
		uint16_t id = s->members[i];
		uint32_t slack = trial->burst;

		if (choice_is_closed(trial->plan, id)) {
			continue;
		}
		open++;
		if (s->limit > 0 && trial->counts->proven[id].most + slack < s->limit) {
			*ret_refused = false; // this backend is below its limit
		}
		if (s->limit == 0 || trial->counts->proven[id].least < s->limit + slack) {
			ret[n++] = id;
		}
	}
	*ret_refused = *ret_refused && open > 0;
	if (s->affine && choice_usable(trial->plan, trial->guess) && n < PLAN_PER_SERVICE) {
		ret[n++] = trial->guess; // it may not be a member any more
	}
	return n;
}
