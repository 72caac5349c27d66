// SPDX-License-Identifier: BSD-3-Clause
//
// The files of the web page (page/), embedded by embed.py. The arrays are not NUL-terminated.
//
// Threads: any; constant.
#pragma once

#include <stddef.h>

extern const char weir_page_html[], weir_page_css[], weir_page_js[];
extern const size_t weir_page_html_bytes, weir_page_css_bytes, weir_page_js_bytes;
