// SPDX-License-Identifier: BSD-3-Clause
//
// Names and meanings of refusals, results and methods, for messages and metrics.
#include "agent_message.h"

static const struct {
	const char *name, *meaning;
} refusals[] = {
#define X(name, text, meaning) [WEIR_AGENT_REFUSAL_##name] = {text, meaning},
	WEIR_AGENT_REFUSALS(X)
#undef X
};

const char *weir_agent_refusal_name(enum weir_agent_refusal refusal) {
	return refusals[refusal].name;
}

const char *weir_agent_refusal_meaning(enum weir_agent_refusal refusal) {
	return refusals[refusal].meaning;
}

static const struct {
	const char *name, *meaning;
} steal_results[] = {[WEIR_AGENT_STEAL_NO_RESULT] = {"none", "no answer"},
#define X(name, text, meaning) [WEIR_AGENT_STEAL_##name] = {text, meaning},
	WEIR_AGENT_STEAL_RESULTS(X)
#undef X
};

const char *weir_agent_steal_result_name(enum weir_agent_steal_result result) {
	return steal_results[result].name;
}

const char *weir_agent_steal_result_meaning(enum weir_agent_steal_result result) {
	return steal_results[result].meaning;
}

static const struct {
	const char *name, *meaning;
} shed_results[] = {[WEIR_AGENT_SHED_NO_RESULT] = {"none", "no answer"},
#define X(name, text, meaning) [WEIR_AGENT_SHED_##name] = {text, meaning},
	WEIR_AGENT_SHED_RESULTS(X)
#undef X
};

const char *weir_agent_shed_result_name(enum weir_agent_shed_result result) {
	return shed_results[result].name;
}

const char *weir_agent_shed_result_meaning(enum weir_agent_shed_result result) {
	return shed_results[result].meaning;
}

const char *weir_agent_shed_method_name(enum weir_agent_shed_method method) {
	static const char *const names[] = {"none", "idle", "hook"};

	return names[method];
}
