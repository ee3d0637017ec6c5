//===- CommandList.cpp - A program with every address resolved ------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/core/CommandList.h"
#include "heddle/runtime/io/Diagnostic.h"

#include <algorithm>
#include <chrono>
#include <cstring>

using namespace heddle;
using namespace heddle::rt;

using plan::Command;
using plan::Ref;
using plan::Space;

[[noreturn]] static void malformed(const std::string &what) {
  fail("H0385", "the plan is malformed: " + what, "compile the binary again");
}

/// The part of `bytes` that one thread copies or fills: whole cache lines.
static std::pair<int64_t, int64_t> shareOf(int64_t bytes, int64_t thread,
                                           int64_t threads) {
  constexpr int64_t line = 64;
  int64_t share = ((bytes + threads - 1) / threads + line - 1) / line * line;
  int64_t begin = std::min(bytes, thread * share);
  return {begin, std::min(bytes, begin + share) - begin};
}

static void copyKernel(void *const *refs, const int64_t *scalars,
                       int64_t thread, int64_t threads, void *) {
  auto [begin, count] = shareOf(scalars[0], thread, threads);
  memmove(static_cast<char *>(refs[0]) + begin,
          static_cast<const char *>(refs[1]) + begin, count);
}

static void fillKernel(void *const *refs, const int64_t *scalars,
                       int64_t thread, int64_t threads, void *) {
  auto [begin, count] = shareOf(scalars[0], thread, threads);
  memset(static_cast<char *>(refs[0]) + begin, 0, count);
}

/// The address of `offset` in a region, if `bytes` from there stay inside.
static char *inside(char *region, int64_t regionBytes, int64_t offset,
                    int64_t bytes, const std::string &what) {
  if (offset < 0 || bytes < 0 || offset > regionBytes ||
      bytes > regionBytes - offset)
    malformed(what + " reaches outside of its region");
  return region + offset;
}

namespace heddle::rt {

/// Walks the sequences of one program and appends to its command list.
class Resolver {
public:
  Resolver(const plan::Plan &plan, const KernelImage &image,
           const Regions &regions, CommandList &list)
      : plan(plan), regions(regions), list(list) {
    functions.reserve(plan.kernels.size());
    for (const plan::Kernel &kernel : plan.kernels) {
      functions.push_back(image.find(kernel.name));
      if (!functions.back())
        malformed("there is no code for kernel '" + kernel.name + "'");
      if (kernel.scratchBytes > plan.memory.scratchBytesPerThread)
        malformed("kernel '" + kernel.name + "' has too little scratch memory");
    }
  }

  void resolve(const plan::Program &program, int64_t threads);

private:
  /// Where a sequence runs. Arguments are offsets too, so that what is reached
  /// through them can be checked.
  struct Context {
    std::vector<std::pair<Space, int64_t>> args;
    std::vector<int64_t> scalars;
    int64_t frame = 0;
    int64_t loopIndex = 0;
    int depth = 0;
  };

  void walk(int64_t number, const Context &context);
  void enter(const Command &command, const Context &context, int64_t iteration,
             bool isLoop);
  void append(const Command &command, const Context &context);
  std::pair<Space, int64_t> locate(const Ref &ref, const Context &context,
                                   int64_t iteration) const;
  int64_t scalar(const plan::Scalar &scalar, const Context &context,
                 int64_t iteration) const;
  char *address(const Ref &ref, const Context &context) const;

  const plan::Plan &plan;
  const Regions &regions;
  CommandList &list;
  std::vector<KernelFunction> functions;
  std::vector<std::pair<size_t, size_t>> starts; ///< Into refs and scalars.
};

void Resolver::resolve(const plan::Program &program, int64_t threads) {
  walk(program.sequence, Context());
  // The tables have stopped growing: their addresses hold from here on.
  for (size_t i = 0; i < starts.size(); ++i) {
    list.launches[i].refs = list.refs.data() + starts[i].first;
    list.launches[i].scalars = list.scalars.data() + starts[i].second;
  }
  const plan::Memory &memory = plan.memory;
  list.scratch.stride = memory.scratchBytesPerThread;
  list.scratch.base =
      inside(regions.arena, regions.arenaBytes, memory.scratchOffset,
             memory.scratchBytesPerThread * threads, "scratch memory");
}

void Resolver::walk(int64_t number, const Context &context) {
  if (number < 0 || number >= int64_t(plan.sequences.size()))
    malformed("there is no sequence " + std::to_string(number));
  if (context.depth > 64)
    malformed("sequences call each other without end");
  const plan::Sequence &sequence = plan.sequences[number];
  if (int64_t(context.args.size()) < sequence.numArgs ||
      int64_t(context.scalars.size()) < sequence.numScalarArgs)
    malformed("a call of '" + sequence.name + "' lacks arguments");
  inside(regions.arena, regions.arenaBytes, context.frame, sequence.frameBytes,
         "the frame of '" + sequence.name + "'");
  for (const Command &command : sequence.commands) {
    switch (command.kind) {
    case Command::Kind::Launch:
    case Command::Kind::Copy:
    case Command::Kind::Fill:
      append(command, context);
      break;
    case Command::Kind::Call:
      enter(command, context, context.loopIndex, /*isLoop=*/false);
      break;
    case Command::Kind::Loop:
      for (int64_t i = 0; i < command.count; ++i)
        enter(command, context, i, /*isLoop=*/true);
      break;
    }
  }
}

void Resolver::enter(const Command &command, const Context &context,
                     int64_t iteration, bool isLoop) {
  Context inner;
  for (const Ref &ref : command.refs)
    inner.args.push_back(locate(ref, context, iteration));
  for (const plan::Scalar &value : command.scalars)
    inner.scalars.push_back(scalar(value, context, iteration));
  inner.frame = context.frame + command.frameOffset;
  inner.loopIndex = isLoop ? iteration : context.loopIndex;
  inner.depth = context.depth + 1;
  walk(command.target, inner);
}

std::pair<Space, int64_t> Resolver::locate(const Ref &ref,
                                           const Context &context,
                                           int64_t iteration) const {
  int64_t offset = ref.offset + ref.stride * iteration;
  if (ref.space == Space::Persistent)
    return {Space::Persistent, offset};
  if (ref.space == Space::Frame)
    return {Space::Frame, context.frame + offset};
  if (ref.index < 0 || ref.index >= int64_t(context.args.size()))
    malformed("an operand names argument " + std::to_string(ref.index) +
              " of " + std::to_string(context.args.size()));
  auto [space, base] = context.args[ref.index];
  return {space, base + offset};
}

char *Resolver::address(const Ref &ref, const Context &context) const {
  auto [space, offset] = locate(ref, context, context.loopIndex);
  if (space == Space::Persistent)
    return inside(regions.persistent, regions.persistentBytes, offset,
                  ref.bytes, "an operand");
  return inside(regions.arena, regions.arenaBytes, offset, ref.bytes,
                "an operand");
}

int64_t Resolver::scalar(const plan::Scalar &scalar, const Context &context,
                         int64_t iteration) const {
  switch (scalar.kind) {
  case plan::Scalar::Kind::Constant:
    return scalar.value;
  case plan::Scalar::Kind::LoopIndex:
    return iteration;
  case plan::Scalar::Kind::Arg:
    break;
  }
  if (scalar.value < 0 || scalar.value >= int64_t(context.scalars.size()))
    malformed("a launch names an integer argument that is not there");
  return context.scalars[scalar.value];
}

void Resolver::append(const Command &command, const Context &context) {
  starts.emplace_back(list.refs.size(), list.scalars.size());
  Launch launch;
  LaunchInfo info;
  info.path = command.path;
  if (command.kind == Command::Kind::Launch) {
    if (command.target < 0 || command.target >= int64_t(functions.size()))
      malformed("there is no kernel " + std::to_string(command.target));
    launch.function = functions[command.target];
    info.kernel = command.target;
    for (const plan::Scalar &value : command.scalars)
      list.scalars.push_back(scalar(value, context, context.loopIndex));
  } else {
    bool isCopy = command.kind == Command::Kind::Copy;
    if (command.refs.size() != (isCopy ? 2 : 1) ||
        command.refs[0].bytes != command.refs.back().bytes)
      malformed("a copy or fill has the wrong operands");
    launch.function = isCopy ? copyKernel : fillKernel;
    info.kernel = isCopy ? -1 : -2;
    list.scalars.push_back(command.refs[0].bytes);
  }
  for (const Ref &ref : command.refs)
    list.refs.push_back(address(ref, context));
  list.launches.push_back(launch);
  list.infos.push_back(info);
}

} // namespace heddle::rt

CommandList::CommandList(const plan::Plan &plan, const plan::Program &program,
                         const KernelImage &image, const Regions &regions) {
  Resolver(plan, image, regions, *this).resolve(program, plan.threads);
}

static int64_t now() {
  return std::chrono::steady_clock::now().time_since_epoch().count();
}

void CommandList::run(Device &device, LaunchTime *times) const {
  if (!times) {
    for (const Launch &launch : launches)
      device.launch(launch, scratch);
    return;
  }
  for (size_t i = 0; i < launches.size(); ++i) {
    times[i].begin = now();
    device.launch(launches[i], scratch);
    times[i].end = now();
  }
}

char *heddle::rt::resolvePort(const plan::Port &port, const Regions &regions) {
  int64_t bytes = plan::byteSize(port.type);
  for (int64_t extent : port.shape)
    bytes *= extent;
  const Ref &ref = port.ref;
  if (ref.space == Space::Persistent)
    return inside(regions.persistent, regions.persistentBytes, ref.offset,
                  bytes, "port '" + port.name + "'");
  if (ref.space == Space::Frame)
    return inside(regions.arena, regions.arenaBytes, ref.offset, bytes,
                  "port '" + port.name + "'");
  malformed("port '" + port.name + "' is an argument");
}
