//===- TextOutput.cpp - What generate prints ------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/app/TextOutput.h"
#include "heddle/runtime/io/Process.h"
#include <algorithm>
#include <cstdio>

using namespace heddle;
using namespace heddle::rt;

void TextOutput::write(const std::string &part) {
  made += part;
  if (!sinks.prints || part.empty())
    return;
  fwrite(part.data(), 1, part.size(), stdout);
  io::flushStandardOutput();
}

std::string TextOutput::numbers(const std::vector<int32_t> &tokens) {
  std::string text;
  for (int32_t token : tokens) {
    text += (isFirst ? "" : " ") + std::to_string(token);
    isFirst = false;
  }
  return text;
}

void TextOutput::prompt(const std::vector<int32_t> &tokens) {
  std::string text = stream ? stream->add(tokens) : "";
  write(sinks.asIds ? numbers(tokens) : text);
  made.clear();
}

/// Prints of what is held back all that no stop text can begin with; true when
/// one is complete.
bool TextOutput::release(bool isEnd) {
  size_t keep = 0;
  for (const std::string &stop : sinks.stops) {
    size_t found = held.find(stop);
    if (found != std::string::npos) {
      stopped = true;
      held.resize(found);
    }
    for (size_t length = std::min(stop.size() - 1, held.size()); length > keep;
         --length)
      if (held.compare(held.size() - length, length, stop, 0, length) == 0)
        keep = length;
  }
  if (stopped || isEnd)
    keep = 0;
  write(held.substr(0, held.size() - keep));
  held.erase(0, held.size() - keep);
  return stopped;
}

bool TextOutput::add(int32_t token) {
  if (sinks.asIds)
    write(numbers({token}));
  if (!stream)
    return false;
  std::string part = stream->add({token});
  if (sinks.asIds && sinks.stops.empty())
    return false;
  held += part;
  if (!sinks.asIds)
    return release(/*isEnd=*/false);
  return std::any_of(sinks.stops.begin(), sinks.stops.end(),
                     [&](const std::string &stop) {
                       return held.find(stop) != std::string::npos;
                     });
}

void TextOutput::finish() {
  if (stream && !sinks.asIds && !stopped) {
    held += stream->finish();
    release(/*isEnd=*/true);
  }
  if (sinks.prints)
    write("\n");
}
