//===- ControlFlow.cpp - Basic blocks and convergence points --------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Computes where the paths of a divergent branch converge: at the branch's
// immediate post-dominator.
//
//===----------------------------------------------------------------------===//

#include "emulator/ptx/Program.h"

namespace heddle::emulator {

/// Returns the ops that may follow an op which ends a basic block.
static std::vector<int32_t> targetsOf(const Program &program, const Op &op) {
  if (op.targets >= 0)
    return program.targets[op.targets];
  if (op.imm >= 0)
    return {static_cast<int32_t>(op.imm)};
  return {static_cast<int32_t>(program.ops.size())}; // The exit.
}

Blocks::Blocks(const Program &program) {
  const std::vector<Op> &ops = program.ops;
  std::vector<bool> starts(ops.size() + 1);
  starts[0] = true;
  for (size_t i = 0; i < ops.size(); ++i) {
    if (!ops[i].endsBlock)
      continue;
    starts[i + 1] = true;
    for (int32_t target : targetsOf(program, ops[i]))
      starts[target] = true;
  }
  std::vector<size_t> blockOf(ops.size() + 1);
  for (size_t i = 0; i < ops.size(); ++i) {
    if (starts[i])
      this->starts.push_back(i);
    blockOf[i] = this->starts.size() - 1;
  }
  size_t exit = this->starts.size();
  blockOf[ops.size()] = exit;
  for (size_t block = 0; block < exit; ++block) {
    size_t last = end(block, ops.size()) - 1;
    const Op &op = ops[last];
    std::vector<size_t> next;
    if (op.endsBlock)
      for (int32_t target : targetsOf(program, op))
        next.push_back(blockOf[target]);
    if (!op.endsBlock || op.guard != noRow)
      next.push_back(blockOf[last + 1]);
    successors.push_back(std::move(next));
  }
}

namespace {
/// Finds immediate post-dominators. They are computed as the dominators of the
/// reversed graph (Cooper, Harvey and Kennedy).
class PostDominators {
public:
  explicit PostDominators(const Blocks &blocks)
      : exit(blocks.starts.size()), parent(exit + 1, unknown),
        number(exit + 1, unknown) {
    predecessors.resize(exit + 1);
    for (size_t block = 0; block < exit; ++block)
      for (size_t next : blocks.successors[block])
        predecessors[next].push_back(block);
    visit();
    parent[exit] = exit;
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t i = order.size(); i-- > 0;) {
        size_t block = order[i];
        if (block == exit)
          continue;
        size_t meet = unknown;
        for (size_t next : blocks.successors[block])
          if (number[next] != unknown && parent[next] != unknown)
            meet = meet == unknown ? next : intersect(meet, next);
        if (meet != parent[block]) {
          parent[block] = meet;
          changed = true;
        }
      }
    }
  }

  /// Returns the immediate post-dominator of a block. It is a block or the
  /// exit. If the block cannot reach the exit, it is `unknown`.
  size_t of(size_t block) const { return parent[block]; }

  static constexpr size_t unknown = ~size_t(0);
  const size_t exit;

private:
  /// Visits the reversed graph from the exit, in post-order.
  void visit() {
    std::vector<std::pair<size_t, size_t>> stack = {{exit, 0}};
    std::vector<bool> seen(exit + 1);
    seen[exit] = true;
    while (!stack.empty()) {
      auto &[block, at] = stack.back();
      if (at == predecessors[block].size()) {
        number[block] = order.size();
        order.push_back(block);
        stack.pop_back();
        continue;
      }
      size_t next = predecessors[block][at++];
      if (!seen[next]) {
        seen[next] = true;
        stack.push_back({next, 0});
      }
    }
  }

  size_t intersect(size_t a, size_t b) const {
    while (a != b) {
      while (number[a] < number[b])
        a = parent[a];
      while (number[b] < number[a])
        b = parent[b];
    }
    return a;
  }

  std::vector<std::vector<size_t>> predecessors;
  std::vector<size_t> parent, number, order;
};
} // namespace

void findReconvergence(Program &program) {
  std::vector<Op> &ops = program.ops;
  Blocks blocks(program);
  PostDominators post(blocks);
  for (size_t block = 0; block < blocks.starts.size(); ++block) {
    Op &last = ops[blocks.end(block, ops.size()) - 1];
    size_t meet = post.of(block);
    if (!last.endsBlock || meet >= post.exit)
      continue;
    // If the block where the paths would converge only exits, set no
    // convergence point: each path can exit by itself.
    const Op &first = ops[blocks.starts[meet]];
    bool ends = first.endsBlock && first.imm == noPc && first.targets < 0 &&
                first.guard == noRow;
    if (!ends)
      last.reconverge = static_cast<int32_t>(blocks.starts[meet]);
  }
}

} // namespace heddle::emulator
