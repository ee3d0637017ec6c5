//===- Overlap.cpp - Starts collectives early, waits for them late --------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements the pass `spmd-overlap` (see Passes.td). It starts ZeRO 3's
// all-gathers of parameters one layer early, and waits for reductions of
// gradients one layer late.
//
//===----------------------------------------------------------------------===//

#include "LayerUses.h"
#include "Layers.h"
#include "heddle/Transforms/Common/States.h"
#include "heddle/Transforms/Spmd/Passes.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::spmd;

namespace heddle {
#define GEN_PASS_DEF_SPMDOVERLAP
#include "include/heddle/Transforms/Spmd/Passes.h.inc"
} // namespace heddle

namespace {

struct Overlap : heddle::impl::SpmdOverlapBase<Overlap> {
  void runOnOperation() override {
    nn::ModelOp model = getOperation();
    const dist::Strategy &strategy = model.getStrategy().getValue();
    SmallVector<dist::AllGatherOp> gathers;
    SmallVector<dist::ReduceScatterOp> scatters;
    model.walk([&](Operation *op) {
      if (auto gather = dyn_cast<dist::AllGatherOp>(op))
        gathers.push_back(gather);
      if (auto scatter = dyn_cast<dist::ReduceScatterOp>(op))
        scatters.push_back(scatter);
    });
    for (dist::AllGatherOp gather : gathers)
      if (gather.getReason() == activationsReason)
        awaitLate(gather);
      else
        prefetch(gather, strategy);
    for (dist::ReduceScatterOp scatter : scatters)
      defer(scatter);
  }

private:
  template <typename OpT> dist::WaitOp waitFor(OpBuilder &builder, OpT op) {
    op.setPending(true);
    auto wait = builder.create<dist::WaitOp>(
        op.getLoc(), op.getOutput().getType(), op.getOutput());
    op.getOutput().replaceAllUsesExcept(wait.getOutput(), wait);
    return wait;
  }

  /// Returns the number of elements of all-gathered parameters that are in
  /// memory during the layer. These parameters were gathered before the layer,
  /// and the layer or a later operation uses them.
  static int64_t gatheredAt(nn::CallOp layer) {
    Block *block = layer->getBlock();
    int64_t elements = 0;
    for (auto gather : block->getOps<dist::AllGatherOp>()) {
      if (!gather->isBeforeInBlock(layer))
        break;
      Value flat = gather.getOutput();
      if (gather.getPending())
        flat = flat.getUsers().begin()->getResult(0);
      bool isLive = llvm::any_of(flat.getUsers(), [&](Operation *unpack) {
        return llvm::any_of(unpack->getUsers(), [&](Operation *user) {
          return !block->findAncestorOpInBlock(*user)->isBeforeInBlock(layer);
        });
      });
      elements += isLive ? elementsOf(gather.getOutput().getType()) : 0;
    }
    return elements;
  }

  /// Whether an all-gather of parameters may start early, so that it overlaps
  /// with the layer `meanwhile`. The gathered parameters must not exceed the
  /// limits that the user has set on their number of elements.
  static bool mayPrefetch(dist::AllGatherOp gather, nn::CallOp meanwhile,
                          const dist::Strategy &strategy) {
    int64_t size = elementsOf(gather.getOutput().getType());
    return size <= strategy.prefetchBucketSize &&
           (strategy.maxLiveParameters == dist::Strategy::noLimit ||
            size + gatheredAt(meanwhile) <= strategy.maxLiveParameters);
  }

  /// Starts the all-gather of a layer's parameters one layer earlier. At most
  /// two layers' parameters are gathered at the same time.
  void prefetch(dist::AllGatherOp gather, const dist::Strategy &strategy) {
    auto get = gather.getInput().getDefiningOp<nn::GetOp>();
    bool isBucket =
        llvm::all_of(gather.getOutput().getUsers(),
                     [](Operation *user) { return isa<nn::UnpackOp>(user); });
    nn::CallOp previous = neighbour(gather, /*before=*/true);
    if (!get || !isBucket || !previous || !get.getValue().hasOneUse() ||
        !mayPrefetch(gather, previous, strategy))
      return;
    OpBuilder builder(gather);
    waitFor(builder, gather);
    get->moveBefore(previous);
    gather->moveBefore(previous);
    ++numPrefetched;
  }

  /// Leaves an all-gather of activations where it is, but makes it
  /// asynchronous: the wait for it comes directly before the gathered value is
  /// read.
  void awaitLate(dist::AllGatherOp gather) {
    auto unpack =
        dyn_cast<nn::UnpackOp>(*gather.getOutput().getUsers().begin());
    if (!unpack || neighbour(gather, /*before=*/false) ==
                       neighbour(unpack, /*before=*/false))
      return;
    OpBuilder builder(unpack);
    waitFor(builder, gather);
    ++numPrefetched;
  }

  /// The operations that use a reduced gradient: the write of a state and,
  /// before it, the addition to the old value of the state, if there is one.
  /// Empty if the gradient is used in any other way.
  static SmallVector<Operation *> usesOf(Value sum) {
    if (!sum.hasOneUse())
      return {};
    Operation *user = *sum.getUsers().begin();
    if (isa<nn::SetOp>(user))
      return {user};
    auto add = dyn_cast<nn::AddOp>(user);
    auto get = add ? add.getLhs().getDefiningOp<nn::GetOp>() : nn::GetOp();
    if (!get || !get.getValue().hasOneUse() || !add.getOutput().hasOneUse())
      return {};
    auto set = dyn_cast<nn::SetOp>(*add.getOutput().getUsers().begin());
    if (!set || set.getState() != get.getState())
      return {};
    return {get, add, set};
  }

  /// Waits for the reduce-scatter of a layer's gradients one layer later.
  void defer(dist::ReduceScatterOp scatter) {
    nn::CallOp next = neighbour(scatter, /*before=*/false);
    if (!scatter.getInput().getDefiningOp<nn::PackOp>() || !next)
      return;
    SmallVector<Operation *> uses = usesOf(scatter.getOutput());
    if (uses.empty())
      return;
    OpBuilder builder(scatter->getContext());
    builder.setInsertionPointAfter(next);
    Operation *last = waitFor(builder, scatter);
    for (Operation *op : uses) {
      op->moveAfter(last);
      last = op;
    }
    ++numDeferred;
  }
};

} // namespace
