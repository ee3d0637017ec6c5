//===- StopFilter.cpp - Stop strings --------------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/serve/StopFilter.h"

#include <algorithm>

using namespace heddle::rt;

std::string StopFilter::add(const std::string &part) {
  if (stopped)
    return "";
  held += part;
  // The earliest occurrence of any stop string ends the text.
  size_t end = std::string::npos, keep = 0;
  for (const std::string &stop : stops)
    end = std::min(end, held.find(stop));
  if (end != std::string::npos) {
    stopped = true;
    held.resize(end);
  }
  for (const std::string &stop : stops) {
    for (size_t length = std::min(stop.size() - 1, held.size()); length > keep;
         --length)
      if (held.compare(held.size() - length, length, stop, 0, length) == 0)
        keep = length;
  }
  std::string shown = held.substr(0, held.size() - (stopped ? 0 : keep));
  held.erase(0, shown.size());
  return shown;
}

std::string StopFilter::finish() { return std::move(held); }
