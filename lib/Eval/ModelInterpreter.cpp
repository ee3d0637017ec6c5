//===- ModelInterpreter.cpp - Executes functions and steps on tensors -----===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ModelInterpreter.h"

#include "PortBatch.h"
#include "dialects/NN/Conditions.h"
#include "dialects/NN/ProgramPorts.h"
#include "dialects/Pipe/PipeDialect.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace heddle::eval {

//===----------------------------------------------------------------------===//
// States
//===----------------------------------------------------------------------===//

/// The slice with index `index` along the outermost dimension.
static Tensor part(const Tensor &whole, int64_t index) {
  return whole.slice(index, 1).reshaped(whole.shape().drop_front());
}

/// Calls `visit` with each member of a bucket, the member's offset and its
/// number of elements.
template <typename Visit>
static void forEachMember(nn::BucketOp bucket, const SymbolTable &symbols,
                          Visit visit) {
  int64_t offset = 0;
  for (auto member : bucket.getMembers().getAsRange<FlatSymbolRefAttr>()) {
    auto state = symbols.lookup<nn::StateOp>(member.getValue());
    int64_t elements = state.getTensorType().getNumElements();
    visit(state, offset, elements);
    offset += nn::paddedElements(elements);
  }
}

static StateInfo describe(nn::StateOp op) {
  StateInfo info;
  info.name = op.getSymName().str();
  info.role = op.getRole();
  info.parameter = op.getParameter().value_or("").str();
  if (nn::SourceAttr source = op.getSourceAttr())
    info.sources = source.getLayout().pieces;
  info.kind = *kindOf(op.getTensorType().getElementType());
  info.shape = op.getTensorType().getShape().vec();
  info.init = planir::initOf(op.getInitAttr());
  if (DenseIntElementsAttr value = op.getValueAttr())
    info.value.assign(value.value_begin<int32_t>(), value.value_end<int32_t>());
  if (std::optional<nn::PackedAttr> packed = op.getPacked())
    info.packed.push_back(packed->toPlan());
  if (std::optional<nn::QuantizerAttr> quantizer = op.getQuantizer())
    info.quantizer.push_back(quantizer->toPlan());
  // From the phase `spmd` on, the type of a state is the type of its shard.
  // Before that it is the type of the whole tensor.
  if (op.getWhole() && op.getStorage()) {
    info.placement = placementOf(cast<ShapedType>(*op.getWhole()),
                                 *op.getStorage(), op.getSegmentsAttr());
  }
  return info;
}

ModelInterpreter::ModelInterpreter(nn::ModelOp model, const Rank &rank,
                                   const InterpreterOptions &options,
                                   std::shared_ptr<KernelRunner> kernels)
    : RankInterpreter(rank, options), model(model), symbols(model),
      kernels(std::move(kernels)) {
  for (auto op : model.getOps<nn::StateOp>()) {
    stateInfos.push_back(describe(op));
    stateValues[op.getSymName()] = Tensor(op.getTensorType());
  }
  for (auto bucket : model.getOps<nn::BucketOp>())
    if (bucket.getElements())
      placeShards(bucket);
}

/// Sets which elements of a bucket's members a rank holds. A rank holds a range
/// of the flat tensor that joins the members, so a member has no shard of its
/// own.
void ModelInterpreter::placeShards(nn::BucketOp bucket) {
  stateValues[bucket.getSymName()] = Tensor(bucket.getType());
  std::vector<std::string> axes =
      planir::namesOf(cast<ArrayAttr>(bucket.getStorage()->getDims()[0]));
  // The bucket's flat tensor is split only along axes whose ranks hold replicas
  // of the members. Along other axes the members themselves are split already.
  llvm::erase_if(axes, [](const std::string &axis) {
    return !dist::holdsReplicas(StringRef(axis));
  });
  forEachMember(
      bucket, symbols, [&](nn::StateOp state, int64_t offset, int64_t) {
        flats[state.getSymName()] = bucket.getSymName().str();
        auto info = llvm::find_if(stateInfos, [&](const StateInfo &info) {
          return info.name == state.getSymName();
        });
        info->placement.flatAxes = axes;
        info->placement.flatFirst = offset;
        info->placement.flatElements = *bucket.getElements();
      });
}

Tensor ModelInterpreter::stored(const std::string &name) const {
  auto flat = flats.find(name);
  return stateValues.lookup(flat == flats.end() ? name : flat->second);
}

void ModelInterpreter::store(const std::string &name, const Tensor &value) {
  auto flat = flats.find(name);
  std::string place = flat == flats.end() ? name : flat->second;
  Type type = symbols.lookup(place)->getAttrOfType<TypeAttr>("type").getValue();
  stateValues[place] = round(value, type);
}

Tensor ModelInterpreter::readState(StringRef name, const Tensor *slot) {
  auto bucket = symbols.lookup<nn::BucketOp>(name);
  if (slot)
    return part(stateValues.lookup(name), slot->ints().front());
  if (!bucket || bucket.getElements())
    return stateValues.lookup(name);
  Tensor whole(bucket.getType());
  forEachMember(
      bucket, symbols, [&](nn::StateOp state, int64_t offset, int64_t count) {
        whole.copyFrom(stateValues[state.getSymName()], 0, offset, count);
      });
  return whole;
}

void ModelInterpreter::writeState(StringRef name, const Tensor &value,
                                  const Tensor *slot) {
  auto bucket = symbols.lookup<nn::BucketOp>(name);
  if (slot) {
    int64_t first = slot->ints().front() * value.numElements();
    stateValues[name].copyFrom(value, 0, first, value.numElements());
  } else if (!bucket || bucket.getElements()) {
    stateValues[name] = value;
  } else {
    forEachMember(
        bucket, symbols, [&](nn::StateOp state, int64_t offset, int64_t count) {
          stateValues[state.getSymName()].copyFrom(value, offset, 0, count);
        });
  }
}

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

Tensor ModelInterpreter::round(const Tensor &value, Type type) const {
  ElementKind kind = *kindOf(getElementTypeOrSelf(type));
  if (options.fullPrecision || !isFloat(kind))
    return value.withKind(kind);
  return value.convertTo(kind);
}

LogicalResult ModelInterpreter::runComputation(Operation *op,
                                               ArrayRef<Tensor> args,
                                               Tensors &results) {
  auto computation = dyn_cast<nn::ReferenceEvalOpInterface>(op);
  if (!computation)
    return op->emitError("the interpreter does not know '")
           << op->getName() << "'";
  if (failed(computation.evaluate(args, results)))
    return failure();
  for (auto [result, type] : llvm::zip(results, op->getResultTypes()))
    result = round(result, type);
  return success();
}

void ModelInterpreter::keep(const std::string &name, const Tensor &value) {
  auto [position, isNew] = kept.try_emplace(name, value);
  if (!isNew)
    position->second = concatenate(position->second, value);
}

LogicalResult ModelInterpreter::runLoop(nn::MicroBatchesOp loop,
                                        Environment &values) {
  for (int64_t i = 0; i < static_cast<int64_t>(loop.getCount()); ++i) {
    Tensors none;
    if (failed(
            runBlock(loop.getBody().front(), Tensor::scalar(i), values, none)))
      return failure();
  }
  return success();
}

/// Executes an nn.unpack, which splits a flat tensor into values, or an
/// nn.pack, which joins values to a flat tensor.
static void runPack(Operation *op, ArrayRef<Tensor> args,
                    SmallVectorImpl<Tensor> &results) {
  bool packs = isa<nn::PackOp>(op);
  for (Type type : op->getResultTypes())
    results.emplace_back(type);
  int64_t first = 0;
  for (size_t number = 0; number < (packs ? args.size() : results.size());
       ++number) {
    int64_t count = (packs ? args[number] : results[number]).numElements();
    if (packs)
      results[0].copyFrom(args[number], 0, first, count);
    else
      results[number].copyFrom(args[0], first, 0, count);
    first += nn::paddedElements(count);
  }
}

/// A value of type `type` whose elements are NaN, or 0 if they are integers.
static Tensor notComputed(Type type) {
  Tensor value(type);
  if (!isFloat(value.kind()))
    return value;
  std::vector<double> elements(value.numElements(), NAN);
  return Tensor(value.kind(), value.shape(), std::move(elements));
}

/// Gives the results of an operation that is skipped. Those that only other
/// skipped operations use are NaN, so that any other use is seen.
static LogicalResult skip(Operation *op, ArrayRef<Tensor> args,
                          SmallVectorImpl<Tensor> &results) {
  auto call = dyn_cast<nn::CallOp>(op);
  for (OpResult result : op->getResults()) {
    int64_t passed = call ? (*call.getPasses())[result.getResultNumber()]
                          : nn::CallOp::passesNothing;
    if (passed >= 0)
      results.push_back(args[passed]);
    else if (passed == nn::CallOp::passesZeros)
      results.push_back(Tensor(result.getType()));
    else
      results.push_back(notComputed(result.getType()));
  }
  return success();
}

LogicalResult ModelInterpreter::runOperation(Operation *op, Environment &values,
                                             Tensors &results) {
  auto numberOf = [&](Value value) {
    return values.lookup(value).ints().front();
  };
  if (std::optional<int64_t> value = number(op, numberOf)) {
    results.push_back(Tensor::scalar(*value));
    return success();
  }
  Tensors args;
  for (Value operand : op->getOperands())
    args.push_back(values.lookup(operand));
  if (!holds(nn::conditionOf(op)))
    return skip(op, args, results);
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](nn::CallOp call) {
        return runCallee(symbols.lookup(call.getCallee()), args, results);
      })
      .Case([&](nn::GetOp get) {
        results.push_back(
            readState(get.getState(), get.getSlot() ? &args[0] : nullptr));
        return success();
      })
      .Case([&](nn::SetOp set) {
        writeState(set.getState(), args[0], set.getSlot() ? &args[1] : nullptr);
        return success();
      })
      .Case([&](nn::MicroBatchesOp loop) { return runLoop(loop, values); })
      .Case([&](pipe::FragmentsOp fragments) {
        return runFragments(fragments, [&](Block &body, int64_t microBatch,
                                           int64_t slot) {
          Tensors none;
          return runBlock(body,
                          {Tensor::scalar(microBatch), Tensor::scalar(slot)},
                          values, none);
        });
      })
      .Case([&](nn::MicroBatchOp) {
        results.push_back(part(args[0], args[1].ints().front()));
        return success();
      })
      .Case<nn::PackOp, nn::UnpackOp>([&](Operation *pack) {
        runPack(pack, args, results);
        return success();
      })
      .Case([&](nn::KeepOp op) {
        keep(nn::portOfKept(op).getKey().str(), args[0]);
        return success();
      })
      .Case([&](planir::LaunchOp launch) {
        return runLaunch(launch, args, results);
      })
      .Default([&](Operation *other) {
        return isa<dist::DistDialect>(other->getDialect())
                   ? runCommunication(other, args, results)
                   : runComputation(other, args, results);
      });
}

LogicalResult ModelInterpreter::runBlock(Block &block, ArrayRef<Tensor> args,
                                         Environment &values,
                                         Tensors &results) {
  for (auto [argument, value] : llvm::zip(block.getArguments(), args))
    values[argument] = value;
  for (Operation &op : block) {
    if (op.hasTrait<OpTrait::IsTerminator>()) {
      for (Value operand : op.getOperands())
        results.push_back(values.lookup(operand));
      return success();
    }
    Tensors opResults;
    if (failed(runOperation(&op, values, opResults)))
      return failure();
    for (auto [result, value] : llvm::zip(op.getResults(), opResults))
      values[result] = value;
  }
  return success();
}

LogicalResult ModelInterpreter::runCallee(Operation *callee,
                                          ArrayRef<Tensor> args,
                                          Tensors &results) {
  Environment values;
  return runBlock(callee->getRegion(0).front(), args, values, results);
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

LogicalResult ModelInterpreter::runLaunch(planir::LaunchOp launch,
                                          ArrayRef<Tensor> args,
                                          Tensors &results) {
  auto kernel = symbols.lookup<planir::KernelOp>(launch.getKernel());
  if (!kernel)
    return launch.emitError("unknown kernel @") << launch.getKernel();
  return kernel.getSymbol() ? runCompiled(kernel, args, results)
                            : runCallee(kernel, args, results);
}

LogicalResult ModelInterpreter::runCompiled(planir::KernelOp kernel,
                                            ArrayRef<Tensor> args,
                                            Tensors &results) {
  // One buffer for each operand of the kernel, in order. The buffer of a scalar
  // is empty.
  SmallVector<HostBuffer> buffers;
  SmallVector<int64_t> scalars;
  SmallVector<void *> refs;
  for (auto [operand, type] : llvm::enumerate(kernel.getLaunchTypes())) {
    bool isNumber = type.isIndex();
    buffers.emplace_back(
        isNumber ? 0 : dist::byteSize(kernel.getBufferType(operand)));
    if (isNumber) {
      scalars.push_back(args[operand].ints().front());
      continue;
    }
    refs.push_back(buffers.back().data());
    if (operand < args.size())
      round(args[operand], type)
          .toBytes(buffers.back().data(), kernel.getLeadingDimension(operand));
  }
  if (failed(kernels->launch(kernel, refs, scalars)))
    return failure();
  for (auto [number, type] : llvm::enumerate(kernel.getResultTypes())) {
    auto tensor = cast<RankedTensorType>(type);
    unsigned operand = kernel.getLaunchOperandOf(number);
    results.push_back(Tensor::fromBytes(
        *kindOf(tensor.getElementType()), tensor.getShape(),
        buffers[operand].data(), kernel.getLeadingDimension(operand)));
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

std::optional<ModelInterpreter::Program>
ModelInterpreter::findProgram(const ProgramName &name) {
  for (auto step : model.getOps<nn::StepOp>())
    if (name.isOf(step.getKind(), step.getSymName(), step.getPhaseAttr()))
      return Program{step, step.getInputs(), step.getOutputs(),
                     step.getPortsAttr()};
  for (auto function : model.getOps<nn::FuncOp>())
    if (name.isOf(function.getProgram(), function.getSymName(),
                  function.getPhaseAttr()))
      return Program{function, *function.getInputs(), *function.getOutputs(),
                     nullptr};
  return std::nullopt;
}

int64_t ModelInterpreter::batchParts(const ProgramName &name,
                                     const TensorMap &inputs) {
  std::optional<Program> program = findProgram(name);
  if (!program)
    return 1;
  for (auto [port, type] : llvm::zip(program->inputs.getAsRange<nn::PortAttr>(),
                                     program->function.getArgumentTypes()))
    if (std::optional<int64_t> parts =
            partsOf(port, type, program->ports, inputs))
      return *parts;
  return 1;
}

std::optional<std::vector<std::string>>
ModelInterpreter::inputsOf(const ProgramName &name) {
  std::optional<Program> program = findProgram(name);
  if (!program)
    return std::nullopt;
  std::vector<std::string> keys;
  for (auto port : program->inputs.getAsRange<nn::PortAttr>())
    keys.push_back(port.getKey().str());
  return keys;
}

DictionaryAttr ModelInterpreter::portsOf(const ProgramName &name) {
  std::optional<Program> program = findProgram(name);
  return program ? program->ports : DictionaryAttr();
}

/// For a program that returns a loss for each label: adds the mean loss and the
/// weight of the labels to the outputs, as the pass train-build-steps does.
static void addLoss(ArrayAttr inputs, ArrayRef<Tensor> args,
                    ArrayRef<Tensor> losses,
                    SmallVectorImpl<PortValue> &given) {
  MLIRContext *context = inputs.getContext();
  SmallVector<const Tensor *> labels, weights;
  for (auto [port, value] :
       llvm::zip(inputs.getAsRange<nn::PortAttr>(), args)) {
    if (port.getRole() == nn::PortRole::Labels)
      labels.push_back(&value);
    if (port.getRole() == nn::PortRole::LabelWeights)
      weights.push_back(&value);
  }
  double loss = 0, total = 0;
  for (auto [number, value] : llvm::enumerate(losses)) {
    double sum = 0, count = 0;
    size_t which = std::min<size_t>(number, labels.size() - 1);
    auto of = [&](ArrayRef<const Tensor *> all) {
      return all.empty() ? nullptr : all[std::min(which, all.size() - 1)];
    };
    const Tensor *label = of(labels), *weight = of(weights);
    for (auto [index, each] : llvm::enumerate(value.floats())) {
      bool isIgnored = label && label->ints()[index] < 0;
      double counts = isIgnored ? 0 : weight ? weight->floats()[index] : 1;
      sum += counts * each;
      count += counts;
    }
    loss += count == 0 ? 0 : sum / count;
    if (labels.empty() || which == number)
      total += count;
  }
  auto number = [](double value) {
    return Tensor(ElementKind::F64, {}, std::vector<double>{value});
  };
  auto port = [&](nn::PortRole role) {
    return nn::PortAttr::get(context, role);
  };
  given.push_back({port(nn::PortRole::Loss), number(loss)});
  given.push_back({port(nn::PortRole::LossWeight), number(total)});
}

LogicalResult ModelInterpreter::run(const ProgramName &name,
                                    const TensorMap &inputs,
                                    const BatchSlice &batch,
                                    TensorMap &outputs) {
  std::optional<Program> program = findProgram(name);
  if (!program)
    return model.emitError("has no program ") << name.str();
  Tensors args, results;
  for (auto [port, type] : llvm::zip(program->inputs.getAsRange<nn::PortAttr>(),
                                     program->function.getArgumentTypes())) {
    if (type.isIndex()) {
      args.push_back(Tensor::scalar(batch.part));
      continue;
    }
    FailureOr<Tensor> value =
        inputOf(program->function, port.getKey(), cast<ShapedType>(type),
                program->ports, inputs, batch, rank);
    if (failed(value))
      return failure();
    args.push_back(round(*value, type));
  }
  kept.clear();
  setOutcomes(inputs);
  if (failed(runCallee(program->function, args, results)))
    return failure();
  SmallVector<PortValue> given;
  SmallVector<Tensor> losses;
  for (auto [port, value] :
       llvm::zip(program->outputs.getAsRange<nn::PortAttr>(), results))
    if (port.getRole() == nn::PortRole::Losses)
      losses.push_back(value);
    else
      given.push_back({port, value});
  if (!losses.empty())
    addLoss(program->inputs, args, losses, given);
  addOutputs(given, batch, outputs);
  for (auto &[name, value] : kept)
    addOutput(name, value, outputs);
  return success();
}

} // namespace heddle::eval
