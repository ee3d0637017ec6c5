//===- TextOutput.cpp - Output of generate and chat -----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TextOutput.h"
#include "heddle/runtime/io/Process.h"
#include <cstdio>

using namespace heddle;
using namespace heddle::rt;

void TextOutput::print(const std::string &part) {
  if (!sinks.prints || part.empty())
    return;
  fwrite(part.data(), 1, part.size(), stdout);
  io::flushStandardOutput();
}

void TextOutput::write(const std::string &part) {
  made += part;
  print(part);
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

bool TextOutput::add(int32_t token) {
  if (sinks.asIds)
    write(numbers({token}));
  if (!stream)
    return false;
  std::string part = stops.add(stream->add({token}));
  if (!sinks.asIds)
    write(part);
  return stops.hasStopped();
}

void TextOutput::finish() {
  if (stream && !sinks.asIds) {
    write(stops.add(stream->finish()));
    write(stops.finish());
  }
  print("\n"); // The line end is not part of the text.
}
