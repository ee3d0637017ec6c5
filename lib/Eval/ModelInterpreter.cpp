//===- ModelInterpreter.cpp - Executes functions and steps on tensors *- C++
//-*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Eval/ModelInterpreter.h"

#include "heddle/Eval/PortBatch.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace heddle::eval {

//===----------------------------------------------------------------------===//
// States
//===----------------------------------------------------------------------===//

static StateInfo describe(nn::StateOp op) {
  StateInfo info;
  info.name = op.getSymName().str();
  info.role = op.getRole().str();
  info.parameter = op.getParameter().value_or("").str();
  info.source = op.getSource().value_or("").str();
  info.kind = *kindOf(op.getTensorType().getElementType());
  info.shape = op.getTensorType().getShape().vec();
  info.setInit(op.getInitAttr());
  return info;
}

ModelInterpreter::ModelInterpreter(nn::ModelOp model,
                                   const InterpreterOptions &options)
    : model(model), options(options), symbols(model) {
  setStrategy(dist::Strategy::fromDictionary(model.getStrategy().getValues()));
  setWeights(model.getWeights());
  for (auto op : model.getOps<nn::StateOp>()) {
    addState(describe(op));
    stateValues[op.getSymName()] = Tensor(op.getTensorType());
  }
}

std::unique_ptr<ModelInterpreter>
ModelInterpreter::create(nn::ModelOp model, const InterpreterOptions &options) {
  std::unique_ptr<ModelInterpreter> result(
      new ModelInterpreter(model, options));
  auto isCompiled = [](planir::KernelOp op) { return op.getSymbol(); };
  if (llvm::any_of(model.getOps<planir::KernelOp>(), isCompiled)) {
    result->kernels = KernelRunner::create(model, options.threads);
    if (!result->kernels)
      return nullptr;
  }
  return result;
}

Tensor ModelInterpreter::state(const std::string &name) const {
  return stateValues.lookup(name);
}

void ModelInterpreter::setState(const std::string &name, const Tensor &value) {
  auto op = symbols.lookup<nn::StateOp>(name);
  stateValues[name] = round(value, op.getTensorType());
}

/// Where the members of a bucket stand among its elements.
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

Tensor ModelInterpreter::readState(StringRef name) {
  auto bucket = symbols.lookup<nn::BucketOp>(name);
  if (!bucket)
    return stateValues.lookup(name);
  Tensor whole(bucket.getType());
  MutableArrayRef<double> elements = whole.mutableFloats();
  forEachMember(bucket, symbols,
                [&](nn::StateOp state, int64_t offset, int64_t count) {
                  llvm::copy(stateValues[state.getSymName()].floats(),
                             elements.begin() + offset);
                });
  return whole;
}

void ModelInterpreter::writeState(StringRef name, const Tensor &value) {
  auto bucket = symbols.lookup<nn::BucketOp>(name);
  if (!bucket) {
    stateValues[name] = value;
    return;
  }
  forEachMember(
      bucket, symbols, [&](nn::StateOp state, int64_t offset, int64_t count) {
        ArrayRef<double> part = value.floats().slice(offset, count);
        llvm::copy(part,
                   stateValues[state.getSymName()].mutableFloats().begin());
      });
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

/// The slice of the outermost dimension that a micro-batch reads.
static Tensor microBatch(const Tensor &whole, int64_t index) {
  return whole.slice(index, 1).reshaped(whole.shape().drop_front());
}

LogicalResult ModelInterpreter::runOperation(Operation *op, Environment &values,
                                             Tensors &results) {
  Tensors args;
  for (Value operand : op->getOperands())
    args.push_back(values.lookup(operand));
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](nn::CallOp call) {
        return runCallee(symbols.lookup(call.getCallee()), args, results);
      })
      .Case([&](nn::GetOp get) {
        results.push_back(readState(get.getState()));
        return success();
      })
      .Case([&](nn::SetOp set) {
        writeState(set.getState(), args[0]);
        return success();
      })
      .Case([&](nn::MicroBatchesOp loop) { return runLoop(loop, values); })
      .Case([&](nn::MicroBatchOp) {
        results.push_back(microBatch(args[0], args[1].ints().front()));
        return success();
      })
      .Case([&](nn::KeepOp op) {
        keep(portOfKept(op.getPath()), args[0]);
        return success();
      })
      .Case([&](planir::LaunchOp launch) {
        return runLaunch(launch, args, results);
      })
      .Case([&](dist::ReshardOp) {
        results.push_back(args[0]);
        return success();
      })
      .Case([&](arith::ConstantOp constant) -> LogicalResult {
        auto value = dyn_cast<IntegerAttr>(constant.getValue());
        if (!value)
          return constant.emitError("is no integer");
        results.push_back(Tensor::scalar(value.getInt()));
        return success();
      })
      .Default([&](Operation *other) {
        return runComputation(other, args, results);
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
  SmallVector<HostBuffer> buffers;
  SmallVector<int64_t> scalars, argumentBuffer;
  for (auto [arg, type] : llvm::zip(args, kernel.getArgumentTypes())) {
    argumentBuffer.push_back(buffers.size());
    if (type.isIndex()) {
      scalars.push_back(arg.ints().front());
      continue;
    }
    buffers.emplace_back(arg.numBytes());
    round(arg, type).toBytes(buffers.back().data());
  }
  SmallVector<int64_t> resultBuffer;
  for (auto [type, tie] :
       llvm::zip(kernel.getResultTypes(), kernel.getTies())) {
    if (tie >= 0) {
      resultBuffer.push_back(argumentBuffer[tie]);
      continue;
    }
    resultBuffer.push_back(buffers.size());
    buffers.emplace_back(Tensor(type).numBytes());
  }
  SmallVector<void *> refs;
  for (HostBuffer &buffer : buffers)
    refs.push_back(buffer.data());
  if (failed(kernels->launch(kernel, refs, scalars)))
    return failure();
  for (auto [type, index] : llvm::zip(kernel.getResultTypes(), resultBuffer)) {
    auto tensor = cast<RankedTensorType>(type);
    results.push_back(Tensor::fromBytes(*kindOf(tensor.getElementType()),
                                        tensor.getShape(),
                                        buffers[index].data()));
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

static SmallVector<std::string> namesOf(ArrayAttr names) {
  return llvm::map_to_vector(names.getAsRange<StringAttr>(),
                             [](StringAttr name) { return name.str(); });
}

std::optional<ModelInterpreter::Program>
ModelInterpreter::findProgram(StringRef kind) {
  for (auto step : model.getOps<nn::StepOp>())
    if (step.getKind() == kind)
      return Program{step, namesOf(step.getArgNames()),
                     namesOf(step.getResultNames())};
  for (auto function : model.getOps<nn::FuncOp>())
    if (function.getProgram() == kind)
      return Program{function, namesOf(*function.getArgNames()),
                     namesOf(*function.getResultNames())};
  return std::nullopt;
}

LogicalResult ModelInterpreter::runPart(Program &program,
                                        const TensorMap &inputs, int64_t part,
                                        int64_t parts, TensorMap &outputs) {
  Tensors args, results;
  for (auto [name, type] :
       llvm::zip(program.inputs, program.function.getArgumentTypes())) {
    if (type.isIndex()) {
      args.push_back(Tensor::scalar(part));
      continue;
    }
    auto found = inputs.find(name);
    if (found == inputs.end())
      return program.function->emitError("input '") << name << "' is missing";
    ArrayRef<int64_t> shape = cast<RankedTensorType>(type).getShape();
    std::optional<Tensor> value =
        partOfInput(found->second, shape, part, parts);
    if (!value)
      return program.function->emitError("input '")
             << name << "' does not fit " << type;
    args.push_back(round(*value, type));
  }
  kept.clear();
  if (failed(runCallee(program.function, args, results)))
    return failure();
  for (auto [name, value] : llvm::zip(program.outputs, results))
    addOutput(name == "losses" ? "loss" : name,
              name == "losses" ? meanOf(value) : value, parts, outputs);
  for (auto &[name, value] : kept)
    addOutput(name, value, parts, outputs);
  return success();
}

LogicalResult ModelInterpreter::run(StringRef kind, const TensorMap &inputs,
                                    TensorMap &outputs) {
  std::optional<Program> program = findProgram(kind);
  if (!program)
    return model.emitError("has no program of kind ") << kind;
  int64_t parts = 1;
  for (auto [name, type] :
       llvm::zip(program->inputs, program->function.getArgumentTypes()))
    if (auto found = inputs.find(name); name == "ids" && found != inputs.end())
      parts = found->second.numElements() /
              cast<RankedTensorType>(type).getNumElements();
  outputs.clear();
  for (int64_t part = 0; part < parts; ++part)
    if (failed(runPart(*program, inputs, part, parts, outputs)))
      return failure();
  return success();
}

} // namespace heddle::eval
