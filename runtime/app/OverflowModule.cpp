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
static bool isNonfinite(Session &session, size_t index) {
  const plan::State &state = session.plan().states[index];
  const char *elements = session.load(session.state(index));
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

OverflowSearch::OverflowSearch(Job &job) : job(job) {
  Session &session = job.session();
  const std::vector<plan::State> &states = session.plan().states;
  auto gradientsIf = [&](bool (*isSearched)(plan::MemoryKind)) {
    std::vector<size_t> found;
    for (size_t i = 0; i < states.size(); ++i)
      if (states[i].role == plan::StateRole::Gradient &&
          isSearched(states[i].memory))
        found.push_back(i);
    return found;
  };
  gradients = gradientsIf(
      [](plan::MemoryKind kind) { return kind == plan::MemoryKind::Device; });
  std::vector<NumberRange> ranges;
  for (size_t i : gradients) {
    const Value &value = session.state(i);
    ranges.push_back({value.address, value.type, value.numElements()});
  }
  onDevice = job.device().searchNonfinite(ranges);
  if (onDevice)
    found = {onDevice->result(), plan::DType::I32, {}};
  else
    gradients = gradientsIf(
        [](plan::MemoryKind kind) { return kind != plan::MemoryKind::File; });
}

void OverflowSearch::submit(const Value *gradNorm) {
  if (onDevice && gradNorm)
    onDevice->submit(gradNorm->address);
}

/// Returns 1 plus the index in `gradients` of the last one that is infinite or
/// NaN; 0 if there is none.
int64_t OverflowSearch::findOnHost() {
  auto last =
      std::find_if(gradients.rbegin(), gradients.rend(), [&](size_t index) {
        return isNonfinite(job.session(), index);
      });
  return gradients.rend() - last;
}

std::string OverflowSearch::find(int32_t searched) {
  const Session &session = job.session();
  int64_t last = onDevice ? searched : findOnHost();
  // States are in the order of the forward pass, and so are stages. The
  // backward pass computes gradients in the opposite order.
  std::string own;
  if (last > 0) {
    size_t index = gradients[size_t(last - 1)];
    own = std::to_string(session.stage()) + " " + std::to_string(index) + " " +
          moduleOf(session.plan().states[index].parameter);
  }
  std::pair<int64_t, int64_t> latest = {-1, -1};
  std::string module;
  for (const std::string &text : job.ranks().exchange(own)) {
    std::istringstream words(text);
    std::pair<int64_t, int64_t> place;
    std::string name;
    if (words >> place.first >> place.second >> name && place > latest) {
      latest = place;
      module = name;
    }
  }
  return module;
}
