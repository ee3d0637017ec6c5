//===- FormKernels.cpp - Decides which operations share a kernel ----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements the pass `fuse-form-kernels`: see Passes.td. Groups.h has the
// rules for which operations may share a kernel. This file finds groups of
// operations that these rules allow, and outlines each group into a kernel.
//
//===----------------------------------------------------------------------===//

#include "Groups.h"
#include "dialects/NN/Conditions.h"
#include "dialects/NN/HeadColumns.h"
#include "heddle/Transforms/Common/HostValues.h"
#include "heddle/Transforms/Fuse/Passes.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/StringSet.h"
#include <deque>

using namespace mlir;
using namespace heddle;
using namespace heddle::fuse;

namespace heddle {
#define GEN_PASS_DEF_FUSEFORMKERNELS
#include "include/heddle/Transforms/Fuse/Passes.h.inc"
} // namespace heddle

namespace {

/// The operations of one kernel to be formed, in order.
struct Group {
  SmallVector<Operation *> ops;
  bool contains(Operation *op) const { return llvm::is_contained(ops, op); }
};

struct FormKernels : heddle::impl::FuseFormKernelsBase<FormKernels> {
  using Base::Base;

  void runOnOperation() override {
    nn::ModelOp model = getOperation();
    FailureOr<codegen::FusionRules> found = fuse::rulesOf(model);
    if (failed(found))
      return signalPassFailure();
    rules = *found;
    kernels.clear();
    SymbolTable table(model);
    states = &table;
    symbols.clear();
    for (auto symbol : model.getOps<SymbolOpInterface>())
      symbols.insert(symbol.getName());
    SmallVector<Block *> blocks;
    model.walk([&](Operation *op) {
      if (isa<nn::FuncOp, nn::StepOp, nn::MicroBatchesOp, pipe::FragmentsOp>(
              op))
        for (Region &region : op->getRegions())
          blocks.push_back(&region.front());
    });
    for (Block *block : blocks)
      if (failed(formKernels(model, *block)))
        return signalPassFailure();
  }

private:
  /// Whether an operation that comes after `from`, before `to`, and is not in
  /// `group` uses a result of `from`.
  static bool isUsedBefore(Operation *from, Operation *to, const Group &group) {
    return llvm::any_of(from->getUsers(), [&](Operation *user) {
      return user->getBlock() == to->getBlock() && !group.contains(user) &&
             user != to && user->isBeforeInBlock(to);
    });
  }

  /// Whether a write of a state (nn.set) may be delayed until after `op`. The
  /// write may be delayed if `op` will be computed by a kernel, has no side
  /// effects, or accesses another state.
  bool mayPass(nn::SetOp set, Operation *op) {
    if (op->hasTrait<OpTrait::IsTerminator>())
      return false;
    if (generatorOf(op) || isPure(op))
      return true;
    if (!isa<nn::GetOp, nn::SetOp>(op))
      return false;
    auto other = op->getAttrOfType<FlatSymbolRefAttr>("state");
    return other != set.getStateAttr() &&
           states->lookup<nn::StateOp>(other.getValue());
  }

  /// Delays writes of states as far as possible, because two operations with a
  /// write between them could not share a kernel. Another plan of the same
  /// model may offload these states, and then has no writes in between. Both
  /// plans must form the same kernels: different kernels add in different
  /// orders, so that sums would differ in the last bits.
  void sinkSets(Block &block) {
    for (nn::SetOp set : llvm::to_vector(block.getOps<nn::SetOp>())) {
      Operation *next = set->getNextNode();
      while (mayPass(set, next))
        next = next->getNextNode();
      set->moveBefore(next);
    }
  }

  /// Whether a sum over rows may move down to the end of a group (the
  /// operations of one kernel), because all users of the sum come after the
  /// group.
  static bool mayMove(Operation *sum, const Group &group) {
    Operation *last = group.ops.back();
    return llvm::all_of(sum->getUsers(), [&](Operation *user) {
      return user->getBlock() != last->getBlock() ||
             last->isBeforeInBlock(user);
    });
  }

  /// Returns the reason why `op` cannot join `group` (the operations of one
  /// kernel); empty if it can. The group's last operation may come before or
  /// after `op`.
  std::string refusal(Operation *op, const Group &group) {
    std::string why = fuse::refusal(op, group.ops, rules);
    if (!why.empty())
      return why;
    Operation *last = group.ops.back();
    bool isUsed = op->isBeforeInBlock(last)
                      ? !mayMove(op, group)
                      : llvm::any_of(group.ops, [&](Operation *member) {
                          return isUsedBefore(member, op, group);
                        });
    return isUsed ? "a value of the kernel is used in between" : "";
  }

  /// Returns the operations whose kernels `op` might join. In general these are
  /// the operations that compute its operands. A sum over rows may also join
  /// operations that read or multiply the same rows. A matrix product with a
  /// packed (for example, quantized) weight may also join other products with
  /// the same input.
  SmallVector<Operation *> neighborsOf(Operation *op) {
    SmallVector<Operation *> neighbors;
    if (sumsRows(op)) {
      Value summed = op->getOperand(0);
      auto mayTake = [&](Operation *other) {
        return isa<nn::LinearGradWeightOp>(other)
                   ? isa<nn::SumRowsOp>(op)
                   : rules.sumsInRows && other->hasTrait<nn::Rowwise>();
      };
      if (Operation *producer = summed.getDefiningOp())
        neighbors.push_back(producer);
      llvm::append_range(neighbors, summed.getUsers());
      llvm::erase_if(neighbors,
                     [&](Operation *other) { return !mayTake(other); });
    } else if (auto product = dyn_cast<nn::PackedLinearOp>(op)) {
      if (Operation *producer = product.getInput().getDefiningOp())
        neighbors.push_back(producer);
      for (Operation *user : product.getInput().getUsers())
        if (isa<nn::PackedLinearOp>(user))
          neighbors.push_back(user);
    } else if (op->hasTrait<nn::Rowwise>() || nn::headColumnsOf(op) > 0) {
      for (Value operand : op->getOperands())
        if (Operation *producer = operand.getDefiningOp())
          neighbors.push_back(producer);
    }
    return neighbors;
  }

  /// Returns the latest group (the operations of one kernel) that `op` can
  /// join, or null. With `endsLater`, only groups whose last operation comes
  /// after `op` are considered.
  Group *findGroup(Operation *op, bool endsLater = false) {
    Group *best = nullptr;
    for (Operation *neighbor : neighborsOf(op)) {
      auto found = owner.find(neighbor);
      if (found == owner.end() || found->second->contains(op))
        continue;
      Group *group = found->second;
      if (endsLater && group->ops.back()->isBeforeInBlock(op))
        continue;
      std::string why = refusal(op, *group);
      if (!why.empty()) {
        if (remarks)
          op->emitRemark() << op->getName() << " is not fused with "
                           << neighbor->getName() << ": " << why;
        continue;
      }
      if (!best || best->ops.back()->isBeforeInBlock(group->ops.back()))
        best = group;
    }
    return best;
  }

  void join(Operation *op, Group &group) {
    ++numFused;
    group.ops.push_back(op);
    owner[op] = &group;
  }

  /// Whether `op` can become the next operation after `last`, because all its
  /// operands are computed before that point.
  static bool isReadyAfter(Operation *op, Operation *last) {
    return llvm::all_of(op->getOperands(), [&](Value operand) {
      Operation *made = operand.getDefiningOp();
      return !made || made->getBlock() != last->getBlock() || made == last ||
             made->isBeforeInBlock(last);
    });
  }

  /// Returns the earliest group before `sum` that reads or computes the summed
  /// rows and can also compute the sum, or null.
  Group *findGroupBefore(Operation *sum) {
    Group *best = nullptr;
    for (Operation *neighbor : neighborsOf(sum)) {
      auto found = owner.find(neighbor);
      if (found == owner.end() || found->second->contains(sum))
        continue;
      Group *group = found->second;
      Operation *last = group->ops.back();
      if (last->isBeforeInBlock(sum) && isReadyAfter(sum, last) &&
          fuse::refusal(sum, group->ops, rules).empty() &&
          (!best || last->isBeforeInBlock(best->ops.back())))
        best = group;
    }
    return best;
  }

  /// Moves sums over rows that would need a kernel of their own into a kernel
  /// that reads or computes the same rows: preferably a later one, otherwise an
  /// earlier one.
  void joinSums() {
    for (Group &alone : groups) {
      Operation *sum = alone.ops.front();
      if (!sumsRows(sum))
        continue;
      Group *group = findGroup(sum, /*endsLater=*/true);
      if (!group)
        group = findGroupBefore(sum);
      if (!group)
        continue;
      sum->moveAfter(group->ops.back());
      alone.ops.clear();
      join(sum, *group);
    }
  }

  /// Joins additions of vectors into one kernel. Each addition moves down to
  /// the last one, unless its result is used before that.
  void joinVectorSums() {
    Group *last = nullptr;
    for (Group &alone : llvm::reverse(groups)) {
      if (alone.ops.empty() || !sumsVector(alone.ops.front()))
        continue;
      Operation *sum = alone.ops.front();
      bool isRead = last && llvm::any_of(sum->getUsers(), [&](Operation *user) {
                      return llvm::is_contained(last->ops, user);
                    });
      if (!last || isRead || !refusal(sum, *last).empty()) {
        last = &alone;
        continue;
      }
      sum->moveAfter(last->ops.back());
      alone.ops.clear();
      join(sum, *last);
    }
  }

  /// Returns the group that contains all users of the operation, or null.
  Group *readerOf(Operation *op) {
    Group *reader = nullptr;
    for (Operation *user : op->getUsers()) {
      auto found = owner.find(user);
      if (found == owner.end() || (reader && reader != found->second))
        return nullptr;
      reader = found->second;
    }
    return reader;
  }

  /// Moves operations on vectors that would need a kernel of their own into the
  /// one kernel that reads their result, for example 1 + the weight of a norm.
  void joinVectors() {
    for (Group &alone : groups) {
      if (alone.ops.size() != 1 || !fuse::isOfColumns(alone.ops[0], rules))
        continue;
      Operation *op = alone.ops.front();
      Group *reader = readerOf(op);
      if (!reader)
        continue;
      alone.ops.clear();
      ++numFused;
      reader->ops.insert(reader->ops.begin(), op);
      owner[op] = reader;
    }
  }

  /// The operation's group if it has no other operation, or null.
  Group *groupAlone(Operation *op) {
    auto found = op ? owner.find(op) : owner.end();
    return found != owner.end() && found->second->ops.size() == 1
               ? found->second
               : nullptr;
  }

  /// Makes `ops` the operations of `group`. They are all operations of the
  /// groups that they are in so far.
  void mergeInto(Group &group, SmallVector<Operation *> ops) {
    llvm::SmallPtrSet<Group *, 8> merged;
    for (Operation *op : ops)
      merged.insert(owner[op]);
    numFused += merged.size() - 1;
    llvm::sort(
        ops, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
    for (Operation *op : ops) {
      owner[op]->ops.clear();
      owner[op] = &group;
    }
    group.ops = std::move(ops);
  }

  /// Returns `ops`, and before them those operations that compute elements of
  /// `read`, directly or through each other, and may share a kernel with `ops`.
  SmallVector<Operation *> withHeadElements(SmallVector<Operation *> ops,
                                            ValueRange read) {
    SmallVector<Value> open(read);
    while (!open.empty()) {
      Operation *producer = open.pop_back_val().getDefiningOp();
      auto found = producer ? owner.find(producer) : owner.end();
      if (found == owner.end() || llvm::is_contained(ops, producer))
        continue;
      SmallVector<Operation *> more(found->second->ops);
      more.append(ops);
      if (!fuse::refusalOfCacheGroup(more, rules).empty())
        continue;
      ops = more;
      for (Operation *op : found->second->ops)
        llvm::append_range(open, op->getOperands());
    }
    return ops;
  }

  /// Returns the first value of the same type as `heads` from which operations
  /// on heads compute `heads`. Null if there is none.
  static Value sourceOf(Value heads) {
    Value source;
    Value value = heads;
    while (Operation *producer = value.getDefiningOp()) {
      if (nn::headColumnsOf(producer) == 0)
        break;
      value = producer->getOperand(0);
      if (value.getType() == heads.getType())
        source = value;
    }
    return source;
  }

  /// Joins `reader`, an operation on the cache, with the operations that
  /// compute elements of its operand `operand`: q, k or v. `other` is the same
  /// operand of another operation, which does not read it. It becomes another
  /// value, so that these elements need not be in memory.
  void joinHeadElements(Operation *reader, OpOperand &operand,
                        OpOperand &other) {
    Value source = sourceOf(operand.get());
    if (!source || operand.get() != other.get())
      return;
    other.set(source);
    Group &group = *owner[reader];
    SmallVector<Operation *> ops = withHeadElements(group.ops, operand.get());
    if (ops.size() > group.ops.size())
      mergeInto(group, ops);
    else
      other.set(operand.get());
  }

  /// Joins a write of tokens to the cache with the operations that compute
  /// elements of k and v, and attention over the cache with the one that
  /// computes elements of q.
  void joinHeadElements(nn::CacheWriteOp write,
                        nn::PagedAttentionOp attention) {
    if (write.isPacked() || write.getQkv() != attention.getQkv())
      return;
    MutableOperandRange written = write.getQkvMutable();
    MutableOperandRange attended = attention.getQkvMutable();
    joinHeadElements(attention, attended[0], written[0]);
    for (unsigned i : {1, 2})
      joinHeadElements(write, written[i], attended[i]);
  }

  /// Joins attention over the cache with the write of its tokens to the cache,
  /// and with the operations before these that compute elements of q, k and v.
  /// If the write needs a kernel of its own, each of the two kernels computes
  /// the elements that it reads.
  void joinCacheWrites() {
    for (Group &group : groups) {
      auto attention = group.ops.size() == 1
                           ? dyn_cast<nn::PagedAttentionOp>(group.ops[0])
                           : nn::PagedAttentionOp();
      auto write = attention
                       ? attention.getKeys().getDefiningOp<nn::CacheWriteOp>()
                       : nn::CacheWriteOp();
      if (!attention || rules.queriesOfCacheWrites == 0 || !groupAlone(write))
        continue;
      SmallVector<Operation *> ops = {write, attention};
      auto canJoin = [&](ArrayRef<Operation *> all) {
        return fuse::refusalOfCacheGroup(all, rules).empty() &&
               llvm::none_of(write->getUsers(), [&](Operation *user) {
                 return user != attention &&
                        user->getBlock() == attention->getBlock() &&
                        user->isBeforeInBlock(attention);
               });
      };
      if (!canJoin(ops)) {
        joinHeadElements(write, attention);
        continue;
      }
      mergeInto(group, withHeadElements(ops, attention.getQkv()));
    }
  }

  /// The operations of a group that compute the rows of its products.
  static ArrayRef<Operation *> prologueOf(const Group &group) {
    auto product = llvm::find_if(
        group.ops, [](Operation *op) { return isa<nn::PackedLinearOp>(op); });
    return product == group.ops.end() ? ArrayRef<Operation *>()
                                      : ArrayRef(group.ops.begin(), product);
  }

  /// If each block of a kernel computes the rows of its products, no other
  /// kernel can read them. If one does, such as another product, a kernel of
  /// their own computes them.
  void splitPrologues() {
    if (!rules.blocksComputePrologues)
      return;
    // New groups do not have such operations.
    for (size_t i = 0, count = groups.size(); i < count; ++i) {
      SmallVector<Operation *> prologue(prologueOf(groups[i]));
      bool isRead = llvm::any_of(prologue, [&](Operation *op) {
        return llvm::any_of(op->getUsers(), [&](Operation *user) {
          return !groups[i].contains(user);
        });
      });
      if (!isRead)
        continue;
      Group &rows = groups.emplace_back();
      rows.ops = prologue;
      for (Operation *op : prologue)
        owner[op] = &rows;
      llvm::erase_if(groups[i].ops,
                     [&](Operation *op) { return rows.contains(op); });
    }
  }

  LogicalResult formKernels(nn::ModelOp model, Block &block) {
    groups.clear();
    owner.clear();
    sinkSets(block);
    for (Operation &op : block) {
      if (!generatorOf(&op))
        continue;
      if (Group *group = findGroup(&op)) {
        join(&op, *group);
        continue;
      }
      Group &group = groups.emplace_back();
      group.ops.push_back(&op);
      owner[&op] = &group;
    }
    joinSums();
    joinVectorSums();
    splitPrologues();
    joinVectors();
    joinCacheWrites();
    for (Group &group : groups)
      if (!group.ops.empty())
        outline(model, group);
    return success();
  }

  /// Returns a name for a kernel: the names of its operations, with a number if
  /// another symbol has that name.
  std::string nameFor(nn::ModelOp model, const Group &group) {
    std::string name, unique;
    for (Operation *op : group.ops)
      if (name.size() < 48)
        name += (name.empty() ? "" : "_") + nn::labelOf(op).str();
    do {
      unsigned count = kernels[name]++;
      unique = count ? name + "_" + std::to_string(count) : name;
    } while (symbols.contains(unique));
    return unique;
  }

  /// Outlines a group of operations into a kernel. The launch of the kernel
  /// replaces the group's last operation.
  void outline(nn::ModelOp model, Group &group) {
    llvm::SetVector<Value> inputs;
    SmallVector<Value> outputs;
    DenseMap<Value, Value> ties;
    for (Operation *op : group.ops) {
      for (Value operand : op->getOperands())
        if (!group.contains(operand.getDefiningOp()))
          inputs.insert(operand);
      for (Value result : op->getResults())
        if (llvm::any_of(result.getUsers(), [&](Operation *user) {
              return !group.contains(user);
            }))
          outputs.push_back(result);
      for (auto [result, operand] : tiesOf(op))
        ties[result] = operand;
    }
    Operation *last = group.ops.back();
    OpBuilder builder(last);
    SmallVector<int64_t> tied;
    for (Value output : outputs)
      tied.push_back(tieIndex(ties.lookup(output), inputs, group));

    Location loc = FusedLoc::get(
        &getContext(), llvm::map_to_vector(group.ops, [](Operation *op) {
          return op->getLoc();
        }));
    planir::KernelOp kernel =
        createKernel(model, group, loc, inputs.getArrayRef(), outputs, tied);
    // An update on the host never shares a kernel, because copies between host
    // and device separate it from other operations.
    auto update = dyn_cast<nn::UpdateOp>(group.ops.front());
    kernel.setOnHost(update && runsOnHost(update, *states));
    auto launch = builder.create<planir::LaunchOp>(
        loc, ValueRange(outputs).getTypes(), kernel.getSymName(),
        inputs.getArrayRef(), StringAttr());
    nn::setCondition(launch, nn::conditionOf(last));
    for (auto [output, result] : llvm::zip(outputs, launch.getResults()))
      output.replaceAllUsesWith(result);
    for (Operation *op : llvm::reverse(group.ops))
      op->erase();
    ++numKernels;
  }

  /// Returns the index of the kernel's input in whose memory an output is
  /// computed, or -1 if there is none. The input must come from outside of the
  /// kernel, and nothing may use it afterwards.
  int64_t tieIndex(Value operand, const llvm::SetVector<Value> &inputs,
                   const Group &group) {
    auto found = llvm::find(inputs, operand);
    if (!operand || found == inputs.end())
      return -1;
    Operation *last = group.ops.back();
    for (Operation *user : operand.getUsers()) {
      Operation *here = last->getBlock()->findAncestorOpInBlock(*user);
      if (!group.contains(user) && !(here && here->isBeforeInBlock(last)))
        return -1;
    }
    // The operand may be a slice of a larger value. If another operation reads
    // the larger value too, the slice's memory must not be overwritten.
    auto unpack = operand.getDefiningOp<nn::UnpackOp>();
    if (unpack && !unpack.getFlat().hasOneUse())
      return -1;
    return std::distance(inputs.begin(), found);
  }

  planir::KernelOp createKernel(nn::ModelOp model, Group &group, Location loc,
                                ArrayRef<Value> inputs, ArrayRef<Value> outputs,
                                ArrayRef<int64_t> ties) {
    OpBuilder builder = OpBuilder::atBlockEnd(model.getBodyBlock());
    auto kernel = builder.create<planir::KernelOp>(
        loc, nameFor(model, group),
        builder.getFunctionType(ValueRange(inputs).getTypes(),
                                ValueRange(outputs).getTypes()),
        generatorOf(group.ops), ties);
    Block *body = builder.createBlock(
        &kernel.getBody(), {}, ValueRange(inputs).getTypes(),
        llvm::map_to_vector(inputs, [](Value v) { return v.getLoc(); }));
    IRMapping mapping;
    mapping.map(inputs, body->getArguments());
    // The launch has the condition, so that layers can share the kernel.
    for (Operation *op : group.ops)
      nn::setCondition(builder.clone(*op, mapping), FlatSymbolRefAttr());
    builder.create<planir::YieldOp>(
        loc, llvm::map_to_vector(outputs,
                                 [&](Value v) { return mapping.lookup(v); }));
    return kernel;
  }

  codegen::FusionRules rules;
  std::deque<Group> groups;
  DenseMap<Operation *, Group *> owner;
  /// The model's symbol table, to look up states. It does not contain the new
  /// kernels.
  const SymbolTable *states = nullptr;
  llvm::StringMap<unsigned> kernels;
  /// The names of the model's symbols, except those of kernels.
  llvm::StringSet<> symbols;
};

} // namespace
