// SPDX-License-Identifier: BSD-3-Clause
#include "duration.h"
#include "test.h"

TEST(durations_have_two_units) {
	static const struct {
		uint64_t ms;
		const char *text;
	} cases[] = {{0, "0.0s"}, {49, "0.0s"}, {99, "0.1s"}, {4119, "4.1s"}, {59949, "59.9s"},
		{59990, "1m00s"}, {60000, "1m00s"}, {912000, "15m12s"}, {3599949, "59m59s"},
		{3600000, "1h00m"}, {11100000, "3h05m"}, {86399949, "23h59m"}, {86400000, "1d00h"},
		{187200000, "2d04h"}, {UINT64_MAX, "213503982334d14h"}};
	char text[WEIR_DURATION_BYTES];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_string_equal(weir_duration_text(cases[i].ms, text), cases[i].text);
	}
}
