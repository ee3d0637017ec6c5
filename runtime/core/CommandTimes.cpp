//===- CommandTimes.cpp - Times of a command list's entries ---------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/core/CommandList.h"

using namespace heddle;
using namespace heddle::rt;

using plan::Command;
using plan::Ref;

/// Whether a command copies from or to a file; such copies are asynchronous.
static bool isOfFile(const Command &command) {
  auto is = [](const Ref &ref) { return ref.memory == plan::MemoryKind::File; };
  return command.visit(
      [&](const plan::command::Copy &copy) {
        return is(copy.source) || is(copy.target);
      },
      [&](const plan::command::CopyRows &copy) { return is(copy.source); },
      [](const auto &) { return false; });
}

std::optional<Stream> CommandList::streamOf(size_t entry,
                                            const Action *action) const {
  if (launches[entry].kernel)
    return infos[entry].command->stream;
  if (isOfFile(*infos[entry].command))
    return std::nullopt;
  if (std::holds_alternative<Copy>(*action) ||
      std::holds_alternative<CopyRows>(*action) ||
      std::holds_alternative<Fill>(*action))
    return infos[entry].command->stream;
  if (!isOfDevice(*action))
    return std::nullopt;
  if (std::holds_alternative<Start>(*action))
    return Stream::Communication;
  // A device receives messages on the stream Compute, since kernels on this
  // stream need their contents.
  if (std::holds_alternative<Receive>(*action))
    return Stream::Compute;
  return std::nullopt;
}

LaunchTime CommandList::measure(Device &device, std::optional<Stream> stream,
                                const std::function<void()> &submit) {
  LaunchTime time;
  time.begin = io::steadyNow();
  const io::OffloadTimes *copies = device.fileTimes();
  int64_t before = copies ? copies->count() : 0;
  std::optional<int64_t> taken;
  if (stream)
    taken = device.measure(*stream, submit);
  if (!taken)
    submit();
  for (Stream each : plan::streams)
    if (!plan::copiesBeside(each) || !copies)
      device.synchronize(each);
  if (taken)
    time.end = time.begin + *taken;
  else if (copies && copies->count() > before)
    time.end = -copies->count();
  else
    time.end = io::steadyNow();
  return time;
}

void CommandList::timeFileCopies(Device &device, LaunchTime *times,
                                 size_t entries) {
  device.synchronize(Stream::Copy);
  device.synchronize(Stream::Store);
  for (LaunchTime *time = times; time != times + entries; ++time)
    if (time->end < 0) {
      const io::OffloadTime &copied = device.fileTimes()->of(-time->end);
      *time = {copied.begin, copied.end};
    }
}
