//===- StageWriter.cpp - Writes the model of one stage --------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StageWriter.h"
#include "StageFragments.h"
#include "Update.h"
#include "heddle/Transforms/Common/FunctionTypes.h"
#include "heddle/Transforms/Shard/Shardings.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::pipe;
using dist::TensorShardingAttr;

const SharedSum *ModelPlan::sharedSum(StringAttr parameter) const {
  for (const StepPlan &step : steps)
    if (step.trains) {
      auto found = step.fragments->sharedSums().find(parameter);
      if (found != step.fragments->sharedSums().end())
        return &found->second;
    }
  return nullptr;
}

//===----------------------------------------------------------------------===//
// Fragments
//===----------------------------------------------------------------------===//

void StageWriter::writeFragments() {
  for (int64_t chunk = 0; chunk < plan.numbering.chunks; ++chunk)
    slots.push_back(slotsNeeded(plan.schedule[rank], chunk));
  nn::ModelOp whole = plan.model;
  OpBuilder builder(whole);
  stage = cast<nn::ModelOp>(builder.cloneWithoutRegions(*whole));
  stage.getBody().emplaceBlock();
  stage.setSymName((whole.getSymName() + ".stage" + Twine(rank)).str());
  stage.setStage(rank);
  for (const StepPlan &step : plan.steps) {
    addSlots(step);
    steps.push_back(writeStep(step));
  }
  stage.walk([&](dist::SendOp) { ++numSent; });
  findParameters();
}

/// Creates the states for saved and sent values. Each state has one entry
/// (slot) for every micro-batch in flight.
void StageWriter::addSlots(const StepPlan &step) {
  OpBuilder builder(stage.getContext());
  builder.setInsertionPoint(stage.getBodyBlock(), endOfStates());
  for (auto &[key, departure] : step.routes->departures) {
    auto &[value, fragment] = key;
    if (departure.state.empty() || plan.numbering.rankOf(fragment) != rank)
      continue;
    if (stage.lookupSymbol(departure.state))
      continue; // An earlier train program has it.
    auto type = cast<RankedTensorType>(value.getType());
    SmallVector<int64_t> shape = {slots[plan.numbering.chunkOf(fragment)]};
    llvm::append_range(shape, type.getShape());
    auto state = builder.create<nn::StateOp>(
        value.getLoc(), departure.state, nn::StateRole::Saved,
        RankedTensorType::get(shape, type.getElementType()));
    ++numSaved;
    if (auto sharding = shard::shardingOf(value, plan.symbols))
      state.setStorageAttr(shard::addFirst(sharding));
  }
}

/// The line of the schedule for this stage: the order of its forward and
/// backward passes in one step.
LineAttr StageWriter::lineOf(const StepPlan &step) const {
  Line line;
  if (step.trains) {
    line = plan.schedule[rank];
    line.pop_back(); // The optimizer, which the verifier has checked.
  } else {
    nn::MicroBatchesOp loop = step.loop;
    int64_t count = loop.getCount();
    for (int64_t batch = 0; batch < count; ++batch)
      for (int64_t chunk = 0; chunk < plan.numbering.chunks; ++chunk)
        line.push_back({Action::Kind::Forward, batch, chunk});
  }
  return LineAttr::get(plan.model->getContext(), line);
}

void StageWriter::writeLoop(OpBuilder &builder, const StepPlan &step,
                            const IRMapping &mapping) {
  SmallVector<int64_t> numbers, held;
  auto add = [&](int64_t fragment) {
    int64_t chunk = plan.numbering.chunkOf(fragment);
    numbers.push_back(fragment);
    held.push_back(step.trains ? slots[chunk] : 1);
  };
  for (int64_t chunk = 0; chunk < plan.numbering.chunks; ++chunk)
    add(plan.numbering.stageAt(rank, chunk));
  for (int64_t chunk = 0; step.trains && chunk < plan.numbering.chunks; ++chunk)
    add(plan.numbering.backwardOf(plan.numbering.stageAt(rank, chunk)));
  if (step.trains && plan.numbering.halves)
    add(plan.numbering.weightOf(rank));
  nn::MicroBatchesOp loop = step.loop;
  Location loc = loop.getLoc();
  auto fragments =
      builder.create<FragmentsOp>(loc, lineOf(step), held, numbers.size());
  OpBuilder::InsertionGuard guard(builder);
  for (auto [number, region] : llvm::zip(numbers, fragments.getBodies())) {
    Type index = builder.getIndexType();
    Block *block = builder.createBlock(&region, {}, {index, index}, {loc, loc});
    IRMapping inner = mapping;
    inner.map(loop.getBody().getArgument(0), block->getArgument(0));
    FragmentWriter(builder, plan.symbols, *step.fragments, *step.routes, number,
                   inner, step.trains ? block->getArgument(1) : Value())
        .write();
    builder.create<nn::ReturnOp>(loc, ValueRange());
  }
}

/// Writes a step without a loop over micro-batches. Returns, for each result of
/// the step, its value on this stage; null if the stage does not compute it.
SmallVector<Value> StageWriter::writeInline(OpBuilder &builder,
                                            const StepPlan &step,
                                            const IRMapping &mapping) {
  auto returned = step.fragments->body.getTerminator()->getOperands();
  SmallVector<Value> results(returned.size());
  for (int64_t chunk = 0; chunk < plan.numbering.chunks; ++chunk) {
    int64_t fragment = plan.numbering.stageAt(rank, chunk);
    FragmentWriter writer(builder, plan.symbols, *step.fragments, *step.routes,
                          fragment, mapping, Value());
    writer.write();
    for (auto [value, result] : llvm::zip(returned, results))
      if (Operation *definition = value.getDefiningOp();
          definition && step.fragments->of(definition) == fragment)
        result = writer.lookup(value);
  }
  return results;
}

nn::StepOp StageWriter::writeStep(const StepPlan &plan) {
  auto builder = OpBuilder::atBlockEnd(stage.getBodyBlock());
  nn::StepOp whole = plan.step;
  auto step =
      cast<nn::StepOp>(builder.cloneWithoutRegions(*whole.getOperation()));
  SmallVector<Location> places(whole.getArguments().size(), whole.getLoc());
  Block *block = builder.createBlock(&step.getBody(), {},
                                     whole.getArgumentTypes(), places);
  IRMapping mapping;
  mapping.map(whole.getArguments(), block->getArguments());
  if (plan.loop) {
    writeLoop(builder, plan, mapping);
    return step;
  }
  SmallVector<Value> returned;
  SmallVector<unsigned> kept;
  for (auto [number, result] :
       llvm::enumerate(writeInline(builder, plan, mapping)))
    if (result) {
      returned.push_back(result);
      kept.push_back(number);
    }
  builder.create<nn::ReturnOp>(step.getLoc(), returned);
  dropPorts(step, kept);
  return step;
}

//===----------------------------------------------------------------------===//
// States and functions of a stage
//===----------------------------------------------------------------------===//

/// The states that an operation reads or writes. They are a single state, or
/// the members of a bucket. Empty if `symbols` does not contain the state or
/// bucket.
static SmallVector<nn::StateOp> statesOf(const SymbolTable &symbols,
                                         Operation *op) {
  StringRef name;
  if (auto get = dyn_cast<nn::GetOp>(op))
    name = get.getState();
  if (auto set = dyn_cast<nn::SetOp>(op))
    name = set.getState();
  Operation *symbol = name.empty() ? nullptr : symbols.lookup(name);
  if (auto state = dyn_cast_or_null<nn::StateOp>(symbol))
    return {state};
  SmallVector<nn::StateOp> states;
  if (auto bucket = dyn_cast_or_null<nn::BucketOp>(symbol))
    for (auto member : bucket.getMembers().getAsRange<FlatSymbolRefAttr>())
      states.push_back(symbols.lookup<nn::StateOp>(member.getValue()));
  return states;
}

/// Whether the state is a parameter, or a gradient or moment of one.
static bool isOfParameter(nn::StateOp state) {
  return state.getParameter() || state.getRole() == nn::StateRole::Parameter;
}

void StageWriter::findParameters() {
  for (nn::StepOp step : steps)
    step.walk([&](Operation *op) {
      for (nn::StateOp state : statesOf(plan.symbols, op))
        if (isOfParameter(state))
          owned.insert(parameterOf(state));
    });
}

/// The position after the last state, where new states are inserted.
Block::iterator StageWriter::endOfStates() {
  Block *body = stage.getBodyBlock();
  return llvm::find_if(
      *body, [](Operation &op) { return !isa<dist::MeshOp, nn::StateOp>(op); });
}

/// Copies from the whole model what the stage needs: its parameters with their
/// gradients and optimizer states, the states that belong to no parameter, and
/// the functions that its steps call. All buckets are copied with the names of
/// all their members. Names of states that are not on this stage are removed
/// later.
void StageWriter::copyRest() {
  DenseSet<Operation *> called;
  std::function<void(Operation *)> reach = [&](Operation *op) {
    op->walk([&](nn::CallOp call) {
      Operation *callee = plan.symbols.lookup(call.getCallee());
      if (called.insert(callee).second)
        reach(callee);
    });
  };
  for (nn::StepOp step : steps)
    reach(step);
  auto isNeeded = [&](Operation &op) {
    if (auto state = dyn_cast<nn::StateOp>(op))
      return !isOfParameter(state) || owned.contains(parameterOf(state));
    if (auto mine = dyn_cast<StageOp>(op))
      return static_cast<int64_t>(mine.getIndex()) % plan.numbering.ranks ==
             rank;
    return isa<nn::FuncOp>(op) ? called.contains(&op) : !isa<nn::StepOp>(op);
  };
  Block *body = stage.getBodyBlock();
  nn::ModelOp whole = plan.model;
  Block::iterator saved = body->begin();
  OpBuilder builder(stage.getContext());
  for (Operation &op : *whole.getBodyBlock()) {
    if (!isNeeded(op))
      continue;
    bool first = isa<dist::MeshOp, nn::StateOp>(op);
    builder.setInsertionPoint(body, first ? saved : Block::iterator(steps[0]));
    builder.clone(op);
  }
}

/// Erases states that no step uses, unless they belong to a parameter.
void StageWriter::dropUnused() {
  DenseSet<Operation *> used;
  SymbolTable symbols(stage);
  for (nn::StepOp step : steps)
    step.walk([&](Operation *op) {
      for (nn::StateOp state : statesOf(symbols, op))
        used.insert(state);
    });
  for (auto state : llvm::make_early_inc_range(stage.getOps<nn::StateOp>()))
    if (!isOfParameter(state) && !used.contains(state))
      state.erase();
}

//===----------------------------------------------------------------------===//
// Before and after the fragments
//===----------------------------------------------------------------------===//

/// Marks accumulators (states that sum up values of all micro-batches, such as
/// losses) as partial sums over the mesh axis `pipe`, because each stage adds
/// to its own copy.
void StageWriter::sumAccumulators() {
  ArrayAttr none = ArrayAttr::get(stage.getContext(), {});
  for (auto state : stage.getOps<nn::StateOp>()) {
    if (state.getRole() != nn::StateRole::Accumulator)
      continue;
    SmallVector<Attribute> dims(state.getTensorType().getRank(), none);
    TensorShardingAttr storage = state.getStorageAttr();
    if (!storage)
      storage = TensorShardingAttr::get(
          stage.getContext(), ArrayAttr::get(stage.getContext(), dims), none);
    state.setStorageAttr(sumOverStages(storage));
  }
}

void StageWriter::finish() {
  copyRest();
  auto isCopy = [&](StringAttr parameter) {
    const SharedSum *sum = plan.sharedSum(parameter);
    return sum && sum->ranks.front() != rank;
  };
  auto has = [&](StringAttr parameter) { return owned.contains(parameter); };
  StageBuckets buckets =
      cutBuckets(stage, plan.symbols, has, isCopy, plan.replicas);
  sumAccumulators();
  for (auto [step, whole] : llvm::zip(steps, plan.steps))
    if (whole.loop)
      writeUpdate(whole, step, buckets);
  dropUnused();
}

void StageWriter::writeUpdate(const StepPlan &whole, nn::StepOp step,
                              const StageBuckets &buckets) {
  Block &from = whole.loop->getParentRegion()->front();
  Block &to = step.getBody().front();
  IRMapping mapping;
  mapping.map(from.getArguments(), to.getArguments());
  OpBuilder builder(&to.front());
  UpdateWriter update(builder, buckets, mapping);
  for (Operation &op : from) {
    if (&op != whole.loop) {
      update.write(op);
      continue;
    }
    builder.setInsertionPointToEnd(&to);
    if (!whole.trains)
      continue;
    for (const auto &[parameter, sum] : whole.fragments->sharedSums())
      if (llvm::is_contained(sum.ranks, rank))
        addUpShared(builder, stage, sum, rank);
  }
  sumResults(step);
  unsigned results = step.getResultTypes().size();
  dropPorts(step, llvm::to_vector(llvm::seq(0u, results)));
}

/// Inserts an all-reduce over the mesh axis `pipe` where the step reads an
/// accumulator, such as the sum of losses, after the loop over micro-batches.
/// The all-reduce is needed because each stage has only a partial sum.
void StageWriter::sumResults(nn::StepOp step) {
  SymbolTable symbols(stage);
  for (auto get : step.getBody().getOps<nn::GetOp>()) {
    auto state = symbols.lookup<nn::StateOp>(get.getState());
    if (!state || state.getRole() != nn::StateRole::Accumulator)
      continue;
    TensorShardingAttr storage = *state.getStorage();
    SmallVector<OpOperand *> unsummed;
    for (OpOperand &use : get.getValue().getUses())
      if (auto reshard = dyn_cast<dist::ReshardOp>(use.getOwner()))
        reshard.setFromAttr(storage);
      else
        unsummed.push_back(&use);
    if (unsummed.empty())
      continue;
    OpBuilder builder(get->getContext());
    builder.setInsertionPointAfter(get);
    auto whole = TensorShardingAttr::get(
        builder.getContext(), storage.getDims(), builder.getArrayAttr({}));
    auto sum = builder.create<dist::ReshardOp>(
        get.getLoc(), get.getValue().getType(), get.getValue(), storage, whole,
        builder.getStringAttr("nn.return"), TypeAttr(), DenseI64ArrayAttr());
    for (OpOperand *use : unsummed)
      use->set(sum.getOutput());
  }
}

/// The elements of `list` with the indices `numbers`.
static ArrayAttr pick(ArrayAttr list, ArrayRef<unsigned> numbers) {
  SmallVector<Attribute> picked;
  for (unsigned number : numbers)
    picked.push_back(list[number]);
  return ArrayAttr::get(list.getContext(), picked);
}

/// Erases the step's inputs that the stage does not use, and the results that
/// it does not compute.
void StageWriter::dropPorts(nn::StepOp step, ArrayRef<unsigned> results) {
  Block &block = step.getBody().front();
  SmallVector<unsigned> inputs;
  BitVector unused(block.getNumArguments());
  for (BlockArgument argument : block.getArguments()) {
    if (argument.use_empty())
      unused.set(argument.getArgNumber());
    else
      inputs.push_back(argument.getArgNumber());
  }
  block.eraseArguments(unused);
  step.setInputsAttr(pick(step.getInputs(), inputs));
  step.setOutputsAttr(pick(step.getOutputs(), results));
  if (auto shardings = step.getArgShardings())
    step.setArgShardingsAttr(pick(*shardings, inputs));
  if (auto shardings = step.getResultShardings())
    step.setResultShardingsAttr(pick(*shardings, results));
  updateFunctionType(step);
}
