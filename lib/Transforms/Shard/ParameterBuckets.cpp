//===- ParameterBuckets.cpp - Buckets of parameters, for ZeRO -------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ParameterBuckets.h"
#include "BucketCopier.h"
#include "dialects/Dist/Wire.h"
#include "heddle/Settings/LayerDrop.h"
#include "heddle/Transforms/Common/States.h"
#include "heddle/Transforms/Shard/Shardings.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::shard;
using dist::TensorShardingAttr;
using nn::StateRole;

//===----------------------------------------------------------------------===//
// ParameterBuckets
//===----------------------------------------------------------------------===//

ParameterBuckets::ParameterBuckets(nn::ModelOp model, nn::StepOp step,
                                   const ZeroStorage &zero,
                                   const TiledWeights &tiled, Made &made)
    : model(model), step(step), strategy(model.getStrategy().getValue()),
      zero(zero), tiled(tiled), made(made), symbols(model) {
  auto addPath = [&](nn::CallOp call) {
    for (Value operand : call.getOperands())
      if (auto get = operand.getDefiningOp<nn::GetOp>()) {
        auto state = symbols.lookup<nn::StateOp>(get.getState());
        StringRef parameter = state && state.getParameter()
                                  ? *state.getParameter()
                                  : get.getState();
        auto [path, isNew] = paths.try_emplace(parameter, call.getPath());
        if (!isNew && path->second != call.getPath())
          path->second = parameter.str(); // Read by several calls.
      }
  };
  // All train programs must find the same buckets, so the calls of all count.
  for (auto other : model.getOps<nn::StepOp>())
    if (other.getKind() == nn::ProgramKind::Train) {
      other.walk(addPath);
      for (auto average : other.getBody().getOps<nn::AverageOp>()) {
        compresses = true;
        isJoint |= average.getJoint();
      }
    }
  if (zero.splits(StateRole::Parameter))
    choosePersistent();
  SmallVector<nn::UpdateOp> updates(step.getBody().getOps<nn::UpdateOp>());
  for (nn::UpdateOp update : updates)
    collect(update);
  for (ParameterBucket &bucket : buckets)
    bucket.elements = nn::paddedElements(bucket.elements, zero.ranks);
}

/// Whether the storage of a parameter splits it over the mesh axis `tensor`.
static bool isTensorSplit(nn::StateOp state) {
  TensorShardingAttr storage = state.getStorageAttr();
  return storage && llvm::any_of(storage.getDims().getAsRange<ArrayAttr>(),
                                 [](ArrayAttr axes) { return !axes.empty(); });
}

/// Chooses the parameters that every rank keeps whole with ZeRO 3. They are the
/// smallest parameters. Two settings limit the size of each of them, and the
/// size of all together.
void ParameterBuckets::choosePersistent() {
  SmallVector<std::pair<int64_t, nn::StateOp>> small;
  for (auto state : model.getOps<nn::StateOp>()) {
    int64_t size = state.getTensorType().getNumElements();
    if (state.getRole() == StateRole::Parameter &&
        size < strategy.paramPersistenceThreshold)
      small.push_back({size, state});
  }
  llvm::stable_sort(small, llvm::less_first());
  int64_t total = 0;
  for (auto [size, state] : small) {
    total += size;
    if (total > strategy.modelPersistenceThreshold)
      return;
    persistent.insert(state);
  }
}

/// The parameter group of a bucket that `train-optimizer` made, such as
/// "decay".
static StringRef groupOf(nn::BucketOp bucket) {
  return bucket.getSymName().split('.').second;
}

/// Whether replicas send the parameter's momentum compressed. Chunks of a small
/// tensor would be padding for the most part, and their scales, if it has some
/// of its own, as many bytes as the tensor.
bool ParameterBuckets::isCompressed(nn::StateOp parameter) const {
  int64_t elements = parameter.getTensorType().getNumElements();
  if (isTensorSplit(parameter))
    elements /= strategy.tensor;
  int64_t least = strategy.compressAtLeast;
  bool isLarge = elements >= (least ? least : 8 * zero.ranks * zero.ranks);
  return compresses && zero.ranks > 1 && (isJoint || isLarge);
}

std::string ParameterBuckets::nameOf(nn::StateOp parameter, StringRef group) {
  std::string name;
  if (zero.splits(StateRole::Gradient)) {
    StringRef module = parameter.getSymName().rsplit('.').first;
    auto path = paths.find(parameter.getSymName());
    name = path == paths.end() ? module.str() : path->second;
  }
  if (zero.splits(StateRole::Parameter) &&
      tiled.tilesOf(parameter.getSymName(), parameter.getType()) > 1)
    name = parameter.getSymName().str();
  auto add = [&](bool holds, StringRef what) {
    if (holds)
      name += (name.empty() ? "" : ".") + what.str();
  };
  // Leave the parameter group "decay", to which most parameters belong, out of
  // the bucket's name, unless the name would be empty.
  add(name.empty() || group != "decay", group);
  add(isTensorSplit(parameter), "tensor");
  add(persistent.contains(parameter), "persistent");
  add(isCompressed(parameter), "compressed");
  return name;
}

/// Whether the operation computes a state from itself, without a gradient.
static bool isReset(Operation *op) {
  auto update = dyn_cast<nn::UpdateOp>(op);
  return update && update.getGradient() == update.getParameter();
}

void ParameterBuckets::collect(nn::UpdateOp update) {
  auto get = update.getParameter().getDefiningOp<nn::GetOp>();
  auto group = symbols.lookup<nn::BucketOp>(get.getState());
  if (!group || isReset(update))
    return; // A scalar state of the whole model, or done by replaceSets.
  for (auto member : group.getMembers().getAsRange<FlatSymbolRefAttr>()) {
    auto parameter = symbols.lookup<nn::StateOp>(member.getValue());
    if (parameter.getParameter()) // Replicas step by themselves.
      parameter = symbols.lookup<nn::StateOp>(*parameter.getParameter());
    std::string name = nameOf(parameter, groupOf(group));
    auto found = llvm::find_if(buckets, [&](const ParameterBucket &bucket) {
      return bucket.name == name;
    });
    if (found == buckets.end()) {
      buckets.emplace_back();
      buckets.back().name = name;
      buckets.back().update = update;
      buckets.back().tensor = isTensorSplit(parameter);
      buckets.back().persists = persistent.contains(parameter);
      buckets.back().isCompressed = isCompressed(parameter);
      found = std::prev(buckets.end());
    }
    found->parameters.push_back(parameter);
    found->elements +=
        nn::paddedElements(parameter.getTensorType().getNumElements());
  }
}

nn::BucketOp ParameterBuckets::addBucket(ParameterBucket &bucket,
                                         StringRef what, StringRef suffix,
                                         Type element,
                                         TensorShardingAttr storage) {
  OpBuilder builder(step);
  std::string name = (what + "." + bucket.name).str();
  nn::BucketOp &op = made[name];
  if (op)
    return op;
  SmallVector<Attribute> members;
  int64_t elements = 0;
  for (nn::StateOp parameter : bucket.parameters) {
    auto name = builder.getStringAttr(parameter.getSymName() + suffix);
    members.push_back(FlatSymbolRefAttr::get(name));
    elements += nn::paddedElements(
        symbols.lookup<nn::StateOp>(name).getTensorType().getNumElements());
  }
  op = builder.create<nn::BucketOp>(
      locationOf(bucket.parameters), name, builder.getArrayAttr(members),
      RankedTensorType::get({nn::paddedElements(elements, zero.ranks)},
                            element));
  op.setStorageAttr(storage);
  return op;
}

/// The first of the states that `value` is read from. The others have the same
/// quantity, such as "exp_avg", for other parameters.
nn::StateOp ParameterBuckets::stateOf(Value value) {
  auto get = value.getDefiningOp<nn::GetOp>();
  StringRef state = statesOf(symbols, get.getState()).front();
  return symbols.lookup<nn::StateOp>(state);
}

nn::BucketOp ParameterBuckets::bucketFor(ParameterBucket &bucket, Value value) {
  return bucketFor(bucket, stateOf(value), getElementTypeOrSelf(value));
}

nn::BucketOp ParameterBuckets::bucketFor(ParameterBucket &bucket,
                                         nn::StateOp state, Type element) {
  if (state.getRole() == StateRole::Parameter || state.isCopy())
    return state.isCopy() ? bucket.copies : bucket.values;
  bool isGradient = state.getRole() == StateRole::Gradient;
  return addBucket(bucket, isGradient ? "gradients" : state.getQuantity(),
                   ("." + state.getQuantity()).str(), element,
                   zero.flatOf(state, bucket.tensor));
}

nn::AverageOp heddle::shard::averageOf(nn::UpdateOp update) {
  return update.getGradient().getDefiningOp<nn::AverageOp>();
}

Value heddle::shard::gradientOf(nn::UpdateOp update) {
  nn::AverageOp average = averageOf(update);
  return average ? average.getGradient() : update.getGradient();
}

void ParameterBuckets::addBuckets(ParameterBucket &bucket) {
  Builder builder(model.getContext());
  Type f32 = builder.getF32Type();
  std::string suffix = std::string(".") + wordOf(strategy.precision);
  bool copies =
      symbols.lookup((bucket.parameters.front().getSymName() + suffix).str());
  auto storage = [&](bool split) { return zero.flat(bucket.tensor, split); };
  // If layers compute with copies of lower precision, only the optimizer reads
  // the f32 parameters (the master weights). ZeRO then splits the master
  // weights whenever it splits the optimizer's states.
  bool splits = zero.splits(StateRole::Parameter) && !bucket.persists;
  bucket.values =
      addBucket(bucket, "parameters", "", f32,
                storage(copies ? zero.splits(StateRole::Optimizer) : splits));
  bucket.gradients = bucketFor(bucket, gradientOf(bucket.update));
  for (Value state : bucket.update.getStates())
    bucket.states.push_back(bucketFor(bucket, state));
  if (copies)
    bucket.copies =
        addBucket(bucket, "copies", suffix,
                  dist::computeType(strategy, builder), storage(splits));
}

Value ParameterBuckets::read(OpBuilder &builder, nn::BucketOp state) {
  return builder.create<nn::GetOp>(state.getLoc(), state.getType(),
                                   state.getSymName());
}

Value ParameterBuckets::reshard(OpBuilder &builder, Value value,
                                TensorShardingAttr from, TensorShardingAttr to,
                                StringRef reason) {
  if (from == to)
    return value;
  TypeAttr wire;
  if (!from.getUnreduced().empty() && getElementTypeOrSelf(value).isF32())
    wire = dist::gradientWire(strategy, builder);
  return builder.create<dist::ReshardOp>(
      value.getLoc(), value.getType(), value, from, to,
      builder.getStringAttr(reason), wire, DenseI64ArrayAttr());
}

//===----------------------------------------------------------------------===//
// The optimizer
//===----------------------------------------------------------------------===//

/// Reduces the gradients of all buckets, and computes their norm from the sums
/// of squares of the buckets. Buckets that the mesh axis `tensor` splits have
/// their sums in a separate tensor, which is reduced over `tensor`, too.
void ParameterBuckets::replaceNorm(nn::GlobalNormOp norm) {
  OpBuilder builder(norm);
  SmallVector<Value> sums[2];
  for (ParameterBucket &bucket : buckets) {
    TensorShardingAttr from = bucket.gradients.getStorageAttr();
    auto to = zero.flat(bucket.tensor, zero.splits(StateRole::Optimizer));
    bucket.gradient = read(builder, bucket.gradients);
    if (averageOf(bucket.update) && zero.ranks > 1) {
      sums[bucket.tensor].push_back(squaresOfReplicas(builder, bucket));
      continue;
    }
    // `--keep grads` dumps whole gradients. They are then all-reduced, although
    // the optimizer needs only a reduce-scatter.
    if (zero.splits(StateRole::Optimizer) &&
        !zero.splits(StateRole::Gradient) &&
        llvm::is_contained(strategy.keep, "grads")) {
      auto whole = zero.flat(bucket.tensor, false);
      bucket.gradient =
          reshard(builder, bucket.gradient, from, whole, "--keep");
      from = whole;
    }
    bucket.gradient = reshard(builder, bucket.gradient, from, to, "nn.update");
    int64_t blocks = (bucket.elements + nn::SquareSumsOp::blockSize - 1) /
                     nn::SquareSumsOp::blockSize;
    sums[bucket.tensor].push_back(builder.create<nn::SquareSumsOp>(
        norm.getLoc(), RankedTensorType::get({blocks}, builder.getF32Type()),
        bucket.gradient, ArrayAttr()));
  }
  SmallVector<Value> packed;
  for (ArrayRef<Value> parts : sums) {
    if (parts.empty())
      continue;
    int64_t elements = 0;
    for (Value part : parts)
      elements += nn::paddedElements(
          cast<RankedTensorType>(part.getType()).getNumElements());
    packed.push_back(builder.create<nn::PackOp>(
        norm.getLoc(), RankedTensorType::get({elements}, builder.getF32Type()),
        parts));
  }
  norm.getInputsMutable().assign(packed);
  norm.setSummed(true);
}

void ParameterBuckets::replaceSets(OpBuilder &builder, ParameterBucket &bucket,
                                   BucketCopier &copier) {
  auto old = cast<nn::GetOp>(bucket.update.getParameter().getDefiningOp());
  StringRef group = groupOf(symbols.lookup<nn::BucketOp>(old.getState()));
  nn::AverageOp average = averageOf(bucket.update);
  for (nn::SetOp set : oldSets) {
    auto state = symbols.lookup<nn::BucketOp>(set.getState());
    Operation *maker = set.getValue().getDefiningOp();
    if (groupOf(state) != group)
      continue;
    // The average that the update needs is written with it, unless the update
    // reads what the state was before.
    bool isLate = isa<nn::AverageOp>(maker) && maker != average;
    if (!isLate && !isReset(maker) &&
        !isa<nn::WriteNumbersOp, nn::FakeQuantizeOp>(maker))
      continue;
    auto member = cast<FlatSymbolRefAttr>(state.getMembers()[0]);
    nn::BucketOp mine =
        bucketFor(bucket, symbols.lookup<nn::StateOp>(member.getAttr()),
                  getElementTypeOrSelf(set.getValue()));
    builder.create<nn::SetOp>(set.getLoc(), mine.getSymName(),
                              copier.copy(set.getValue()));
  }
}

void ParameterBuckets::replaceScalars(ParameterBucket &bucket) {
  auto updated = bucket.update.getParameter().getDefiningOp<nn::GetOp>();
  StringRef group = groupOf(symbols.lookup<nn::BucketOp>(updated.getState()));
  for (nn::SetOp set : oldSets) {
    auto state = symbols.lookup<nn::BucketOp>(set.getState());
    auto member = cast<FlatSymbolRefAttr>(state.getMembers()[0]);
    auto first = symbols.lookup<nn::StateOp>(member.getAttr());
    if (groupOf(state) != group || first.getRole() != StateRole::Scalar)
      continue;
    OpBuilder builder(set);
    BucketCopier copier(builder, bucket, oldReads, [&](nn::GetOp get) {
      return read(builder, bucketFor(bucket, get));
    });
    nn::BucketOp mine =
        bucketFor(bucket, first, getElementTypeOrSelf(set.getValue()));
    builder.create<nn::SetOp>(set.getLoc(), mine.getSymName(),
                              copier.copy(set.getValue()));
  }
}

void ParameterBuckets::replaceUpdate(ParameterBucket &bucket) {
  OpBuilder builder(bucket.update);
  BucketCopier copier(builder, bucket, oldReads, [&](nn::GetOp get) {
    return read(builder, bucketFor(bucket, get));
  });
  nn::BucketOp updated = bucketFor(bucket, bucket.update.getParameter());
  copier.map(bucket.update.getParameter(), read(builder, updated));
  if (auto average = averageOf(bucket.update))
    copier.map(average.getOutput(), copyAverage(builder, bucket, copier));
  else
    copier.map(bucket.update.getGradient(), bucket.gradient);
  for (auto [state, mine] : llvm::zip(bucket.update.getStates(), bucket.states))
    copier.map(state, read(builder, mine));
  auto update = cast<nn::UpdateOp>(copier.write(bucket.update));
  update->setLoc(bucket.values.getLoc());
  SmallVector<nn::BucketOp> written = {updated};
  llvm::append_range(written, bucket.states);
  if (update.getCopy())
    written.push_back(bucket.copies);
  for (auto [state, value] : llvm::zip(written, update.getOutputs()))
    builder.create<nn::SetOp>(update.getLoc(), state.getSymName(), value);
  replaceSets(builder, bucket, copier);
}

void ParameterBuckets::replaceUpdates(ArrayRef<nn::BucketOp> old) {
  // All users of old buckets are collected first, because a new bucket may get
  // the name of an old one.
  llvm::StringSet<> gone;
  for (nn::BucketOp bucket : old)
    gone.insert(bucket.getSymName());
  llvm::SetVector<Operation *> dead;
  bool clears = false;
  step.walk([&](Operation *op) {
    if (auto get = dyn_cast<nn::GetOp>(op);
        get && gone.contains(get.getState())) {
      oldReads.insert(op);
      dead.insert(op);
    }
    auto set = dyn_cast<nn::SetOp>(op);
    if (!set || !gone.contains(set.getState()))
      return;
    clears |= isa<nn::FillOp>(set.getValue().getDefiningOp());
    oldSets.push_back(set);
    dead.insert(set.getValue().getDefiningOp());
    dead.insert(op);
  });
  for (ParameterBucket &bucket : buckets)
    addBuckets(bucket);
  for (auto norm :
       llvm::make_early_inc_range(step.getBody().getOps<nn::GlobalNormOp>()))
    replaceNorm(norm);
  for (ParameterBucket &bucket : buckets) {
    replaceUpdate(bucket);
    replaceScalars(bucket);
  }
  for (Operation &op : step.getBody().front())
    if (llvm::any_of(op.getOperands(), [&](Value operand) {
          return dead.contains(operand.getDefiningOp());
        }))
      dead.insert(&op);
  for (auto average : step.getBody().getOps<nn::AverageOp>())
    if (dead.contains(average))
      if (Operation *fill = average.getState().getDefiningOp<nn::FillOp>())
        dead.insert(fill);
  for (Operation *op : llvm::reverse(dead)) {
    op->dropAllUses();
    op->erase();
  }
  if (clears)
    clearGradients(*step.getBody().getOps<nn::MicroBatchesOp>().begin());
}

void ParameterBuckets::clearGradients(nn::MicroBatchesOp loop) {
  OpBuilder builder(loop);
  for (ParameterBucket &bucket : buckets) {
    Value zeros =
        builder.create<nn::FillOp>(loop.getLoc(), bucket.gradients.getType(),
                                   builder.getF64FloatAttr(0), nullptr);
    builder.create<nn::SetOp>(loop.getLoc(), bucket.gradients.getSymName(),
                              zeros);
  }
}

//===----------------------------------------------------------------------===//
// Gradients
//===----------------------------------------------------------------------===//

void ParameterBuckets::keepGradientsApart() {
  for (ParameterBucket &bucket : buckets)
    for (nn::StateOp parameter : bucket.parameters) {
      auto gradient =
          symbols.lookup<nn::StateOp>((parameter.getSymName() + ".grad").str());
      gradient.setStorageAttr(zero.partialSum(storageOf(parameter)));
    }
}

void ParameterBuckets::scatterBucket(ParameterBucket &bucket,
                                     nn::MicroBatchesOp loop) {
  Block &body = loop.getBody().front();
  llvm::StringMap<nn::SetOp> sets;
  for (auto set : body.getOps<nn::SetOp>())
    sets[set.getState()] = set;
  SmallVector<Value> members;
  Operation *last = nullptr;
  for (nn::StateOp parameter : bucket.parameters) {
    nn::SetOp set = sets.lookup((parameter.getSymName() + ".grad").str());
    Value value = set.getValue();
    set.erase();
    // The backward pass adds each gradient to the sum over earlier
    // micro-batches. This addition is removed here. It is made after the
    // reduce-scatter instead, on the shard of the rank.
    if (auto add = value.getDefiningOp<nn::AddOp>())
      if (auto before = add.getLhs().getDefiningOp<nn::GetOp>();
          before &&
          before.getState() == (parameter.getSymName() + ".grad").str()) {
        value = add.getRhs();
        add.erase();
        before.erase();
      }
    members.push_back(value);
    Operation *definition = value.getDefiningOp();
    if (!last || last->isBeforeInBlock(definition))
      last = definition;
  }
  OpBuilder builder(model.getContext());
  builder.setInsertionPointAfter(last);
  Value flat = builder.create<nn::PackOp>(last->getLoc(),
                                          bucket.gradients.getType(), members);
  auto split = zero.flat(bucket.tensor, true);
  Value part =
      reshard(builder, flat, zero.partialSum(zero.flat(bucket.tensor, false)),
              split, bucket.name);
  if (config::sumsGradients(strategy))
    part = builder.create<nn::AddOp>(last->getLoc(), part.getType(),
                                     read(builder, bucket.gradients), part,
                                     ArrayAttr());
  builder.create<nn::SetOp>(last->getLoc(), bucket.gradients.getSymName(),
                            part);
}

void ParameterBuckets::scatterGradients() {
  auto loop = *step.getBody().getOps<nn::MicroBatchesOp>().begin();
  for (ParameterBucket &bucket : buckets)
    scatterBucket(bucket, loop);
}

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

/// Inserts the all-gather of a bucket before the operation `before`. `uses` are
/// operands that read parameters of the bucket. They are changed to read the
/// gathered values.
void ParameterBuckets::gather(ParameterBucket &bucket, Operation *before,
                              ArrayRef<OpOperand *> uses) {
  OpBuilder builder(before);
  nn::BucketOp values = bucket.copies ? bucket.copies : bucket.values;
  Value flat =
      reshard(builder, read(builder, values), zero.flat(bucket.tensor, true),
              zero.flat(bucket.tensor, false), bucket.name);
  SmallVector<Type> types;
  SmallVector<Attribute> shardings;
  llvm::StringMap<unsigned> numbers;
  for (auto [number, member] :
       llvm::enumerate(values.getMembers().getAsRange<FlatSymbolRefAttr>())) {
    auto state = symbols.lookup<nn::StateOp>(member.getValue());
    types.push_back(state.getType());
    shardings.push_back(storageOf(bucket.parameters[number]));
    numbers[member.getValue()] = number;
  }
  auto unpack = builder.create<nn::UnpackOp>(before->getLoc(), types, flat,
                                             builder.getArrayAttr(shardings));
  for (OpOperand *use : uses) {
    auto get = use->get().getDefiningOp<nn::GetOp>();
    use->set(unpack.getResult(numbers.lookup(get.getState())));
  }
}

/// Whether parameters stay gathered from their use by `from` until their use by
/// the later operation `to`. They do if the layers in between gather fewer than
/// `maxReuseDistance` elements (DeepSpeed: stage3_max_reuse_distance).
bool ParameterBuckets::staysGathered(Operation *from, Operation *to,
                                     const BucketUses &uses) {
  llvm::SmallDenseSet<Operation *> layers;
  for (Operation *op = from; op != to; op = op->getNextNode())
    if (isa<nn::CallOp>(op))
      layers.insert(op);
  int64_t elements = 0;
  for (auto &[key, operands] : uses)
    if (layers.contains(key.second))
      elements += key.first->elements;
  return layers.empty() || elements < strategy.maxReuseDistance;
}

// ZeRO 3: all-gathers the parameters of each layer before the layer runs.
void ParameterBuckets::gatherParameters(nn::StepOp reader,
                                        const llvm::StringSet<> &gathered) {
  llvm::StringMap<ParameterBucket *> bucketsByState;
  for (ParameterBucket &bucket : buckets)
    if (!bucket.persists && !gathered.contains(bucket.name))
      for (auto member : (bucket.copies ? bucket.copies : bucket.values)
                             .getMembers()
                             .getAsRange<FlatSymbolRefAttr>())
        bucketsByState[member.getValue()] = &bucket;
  // Each call of a layer gathers the parameters that it reads. Operations
  // outside of layers that are in one MLIR block share an all-gather if few
  // parameters are gathered between them (see staysGathered).
  BucketUses uses;
  SmallVector<nn::GetOp> gets;
  reader.walk([&](nn::GetOp get) {
    ParameterBucket *bucket = bucketsByState.lookup(get.getState());
    if (!bucket)
      return;
    gets.push_back(get);
    for (OpOperand &use : get.getValue().getUses()) {
      Operation *user = use.getOwner();
      if (isa<nn::CallOp>(user))
        uses[{bucket, user}].push_back(&use);
      else
        uses[{bucket, user->getBlock()->getParentOp()}].push_back(&use);
    }
  });
  for (auto &[key, operands] : uses) {
    llvm::stable_sort(operands, [](OpOperand *a, OpOperand *b) {
      return a->getOwner() != b->getOwner() &&
             a->getOwner()->isBeforeInBlock(b->getOwner());
    });
    for (ArrayRef<OpOperand *> rest = operands; !rest.empty();) {
      size_t count = 1;
      while (count < rest.size() &&
             staysGathered(rest[count - 1]->getOwner(), rest[count]->getOwner(),
                           uses))
        ++count;
      gather(*key.first, rest[0]->getOwner(), rest.take_front(count));
      rest = rest.drop_front(count);
    }
  }
  for (nn::GetOp get : gets)
    if (get.getValue().use_empty())
      get.erase();
}
