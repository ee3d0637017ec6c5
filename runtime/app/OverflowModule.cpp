//===- OverflowModule.cpp - Where a step overflowed -----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OverflowModule.h"
#include "heddle/runtime/io/Safetensors.h"

#include <algorithm>
#include <sstream>

using namespace heddle;
using namespace heddle::rt;

/// Whether an element of the state that this rank holds is infinite or NaN.
static bool isNonfinite(const Session &session, size_t index) {
  const plan::State &state = session.plan().states[index];
  const char *elements = session.at(session.state(index));
  const std::vector<ElementRange> runs = session.shard(index).runs();
  return std::any_of(runs.begin(), runs.end(), [&](const ElementRange &run) {
    return io::firstNonFinite(elements + run.local * byteSize(state.type),
                              plan::nameOf(state.type), run.count) >= 0;
  });
}

/// Removes the name of the parameter from its path.
static std::string moduleOf(const std::string &parameter) {
  size_t dot = parameter.rfind('.');
  return dot == std::string::npos ? parameter : parameter.substr(0, dot);
}

std::string heddle::rt::findOverflowModule(Job &job) {
  const Session &session = job.session();
  const std::vector<plan::State> &states = session.plan().states;
  // States are in the order of the forward pass, and so are stages. The
  // backward pass computes gradients in the opposite order.
  std::string own;
  for (size_t i = states.size(); i-- > 0 && own.empty();)
    if (states[i].role == plan::StateRole::Gradient &&
        states[i].memory != plan::MemoryKind::File && isNonfinite(session, i))
      own = std::to_string(session.stage()) + " " + std::to_string(i) + " " +
            moduleOf(states[i].parameter);
  std::pair<int64_t, int64_t> last = {-1, -1};
  std::string module;
  for (const std::string &text : job.ranks().exchange(own)) {
    std::istringstream words(text);
    std::pair<int64_t, int64_t> place;
    std::string name;
    if (words >> place.first >> place.second >> name && place > last) {
      last = place;
      module = name;
    }
  }
  return module;
}
