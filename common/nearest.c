// SPDX-License-Identifier: BSD-3-Clause
#include "nearest.h"

#include <string.h>

#define WORD_MAX 64 // edit_distance does not compare longer words
#define PREFIX_MIN 4

static uint32_t smallest(uint32_t a, uint32_t b, uint32_t c) {
	uint32_t least = a < b ? a : b;

	return least < c ? least : c;
}

// Returns the Levenshtein distance of two words, or UINT32_MAX if one of them is longer than
// WORD_MAX. Only the current row of the distance matrix is stored.
static uint32_t edit_distance(const char *a, const char *b) {
	uint32_t row[WORD_MAX + 1];
	uint32_t a_bytes = (uint32_t)strlen(a), b_bytes = (uint32_t)strlen(b);

	if (a_bytes > WORD_MAX || b_bytes > WORD_MAX) {
		return UINT32_MAX;
	}
	for (uint32_t i = 0; i <= b_bytes; i++) {
		row[i] = i;
	}
	for (uint32_t i = 1; i <= a_bytes; i++) {
		uint32_t diagonal = row[0];

		row[0] = i;
		for (uint32_t j = 1; j <= b_bytes; j++) {
			uint32_t above = row[j];

			row[j] = smallest(
				above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1]));
			diagonal = above;
		}
	}
	return row[b_bytes];
}

// Returns the number of equal letters at the beginning of two words.
static uint32_t common_prefix(const char *a, const char *b) {
	uint32_t length = 0;

	while (a[length] != '\0' && a[length] == b[length]) {
		length++;
	}
	return length;
}

// Returns the candidate that has the longest common prefix with the word, if the prefix has at
// least PREFIX_MIN letters and is at least half of the word, otherwise NULL. Example:
// "least-loaded" for "leastconn".
static const char *same_beginning(const char *word, const char *const *candidates, uint32_t count) {
	const char *best = NULL;
	uint32_t longest = 0, half = (uint32_t)(strlen(word) + 1) / 2;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t length = common_prefix(word, candidates[i]);

		if (length > longest) {
			longest = length;
			best = candidates[i];
		}
	}
	return longest >= PREFIX_MIN && longest >= half ? best : NULL;
}

const char *weir_nearest(const char *word, const char *const *candidates, uint32_t count) {
	const char *nearest = NULL;
	uint32_t least = UINT32_MAX;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t distance = edit_distance(word, candidates[i]);

		if (distance < least) {
			least = distance;
			nearest = candidates[i];
		}
	}
	// The maximum distance is a third of the length of the word. For a word of up to 6 letters,
	// the maximum is 2 ("nmae" for "name"), but less than the length of the word.
	if (nearest != NULL && least <= (strlen(word) > 6 ? strlen(word) / 3 : 2) &&
		least < strlen(word)) {
		return nearest;
	}
	return same_beginning(word, candidates, count);
}
