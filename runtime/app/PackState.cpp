//===- PackState.cpp - Fill the states of packed weights ------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PackState.h"

#include <algorithm>

using namespace heddle;
using namespace heddle::rt;

int64_t heddle::rt::panelBytes(const Value &packed) {
  return packed.numBytes() / std::max<int64_t>(packed.shape.front(), 1);
}

namespace {

/// The panels `begin` to `end` - 1 of a packed weight.
struct PanelWork {
  const plan::PackedWeight &packed;
  plan::DType type;
  const float *weight;
  const GroupScales &given;
  int64_t begin = 0, end = 0;
  void *state = nullptr; ///< Where the first panel of the state would be.
};

} // namespace

/// Packs the panels that belong to one of `threads` threads.
static void packShare(const void *context, int64_t thread, int64_t threads) {
  const auto &work = *static_cast<const PanelWork *>(context);
  int64_t count = work.end - work.begin;
  packPanels(work.packed, work.type, work.weight,
             work.begin + count * thread / threads,
             work.begin + count * (thread + 1) / threads, work.state,
             work.given);
}

void heddle::rt::packState(Job &job, UploadRing &ring, size_t index,
                           const float *weight, const GroupScales &given) {
  const Value &value = job.session().state(index);
  const plan::PackedWeight &packed = job.plan().states[index].packed.at(0);
  const int64_t bytes = panelBytes(value), panels = packed.panels();
  auto pack = [&](int64_t begin, int64_t end, char *to) {
    auto state = reinterpret_cast<uintptr_t>(to) - begin * bytes;
    PanelWork work = {packed,
                      value.type,
                      weight,
                      given,
                      begin,
                      end,
                      reinterpret_cast<void *>(state)};
    job.threadPool().run(packShare, &work);
  };
  if (char *seen = job.device().map(value.address))
    return pack(0, panels, seen);
  const int64_t most = ring.slotBytes() / bytes;
  for (int64_t begin = 0; begin < panels; begin += most) {
    int64_t end = std::min(begin + most, panels);
    pack(begin, end, ring.next());
    ring.send(value.address + begin * bytes, (end - begin) * bytes);
  }
}
