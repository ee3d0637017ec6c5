//===- KernelReference.cpp - What a kernel should compute -----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelReference.h"
#include "heddle/Eval/ReferenceOps.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/xxhash.h"
#include <cmath>
#include <gtest/gtest.h>
#include <random>

using namespace mlir;

namespace heddle::test {

using eval::Tensor;

std::unique_ptr<MLIRContext>
createKernelContext(const DialectRegistry &registry) {
  auto context =
      std::make_unique<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
  context->loadAllAvailableDialects();
  context->allowUnregisteredDialects();
  eval::attachElementwiseEvaluations(*context);
  eval::attachLinearEvaluations(*context);
  eval::attachNormEvaluations(*context);
  eval::attachAttentionEvaluations(*context);
  eval::attachCacheEvaluations(*context);
  eval::attachLossEvaluations(*context);
  eval::attachOptimizerEvaluations(*context);
  eval::attachSignEvaluations(*context);
  eval::attachGroupEvaluations(*context);
  return context;
}

std::vector<const char *> typesOf(const std::string &text, size_t number) {
  const std::vector<const char *> all = {"f32", "bf16", "f16"};
  if (isLong())
    return all;
  return {all[(llvm::xxh3_64bits(text) + number) % all.size()]};
}

std::string instantiate(
    std::string text,
    const std::vector<std::pair<std::string, std::string>> &replacements) {
  for (const auto &[name, value] : replacements)
    for (size_t at; (at = text.find("$" + name)) != std::string::npos;)
      text.replace(at, name.size() + 1, value);
  return text;
}

std::vector<Tensor> evaluate(planir::KernelOp kernel,
                             ArrayRef<Tensor> arguments, bool isRounded) {
  llvm::DenseMap<Value, Tensor> values;
  for (auto [argument, tensor] :
       llvm::zip(kernel.getBody().getArguments(), arguments))
    values[argument] = tensor;
  for (Operation &op : kernel.getBody().front().without_terminator()) {
    SmallVector<Tensor> operands, results;
    for (Value operand : op.getOperands())
      operands.push_back(values[operand]);
    auto evaluation = cast<nn::ReferenceEvalOpInterface>(op);
    if (failed(evaluation.evaluate(operands, results)))
      exit(1);
    for (auto [value, result] : llvm::zip(op.getResults(), results))
      values[value] = isRounded ? result.convertTo(*eval::kindOf(
                                      getElementTypeOrSelf(value.getType())))
                                : result;
  }
  std::vector<Tensor> yielded;
  for (Value value : kernel.getBody().front().getTerminator()->getOperands())
    yielded.push_back(values[value]);
  return yielded;
}

std::vector<Tensor> randomArguments(planir::KernelOp kernel,
                                    const KernelCheck &check) {
  std::mt19937 engine(17);
  std::normal_distribution<double> normal;
  std::uniform_int_distribution<int64_t> integer(check.least, check.limit - 1);
  std::vector<Tensor> tensors;
  size_t nextScalar = 0;
  for (auto [index, type] : llvm::enumerate(kernel.getArgumentTypes())) {
    if (type.isIndex()) {
      tensors.push_back(Tensor::scalar(check.scalars.at(nextScalar++)));
      continue;
    }
    Tensor tensor(type);
    bool positive = bool(kernel.getArgAttr(index, "test.positive"));
    bool integral = bool(kernel.getArgAttr(index, "test.integral"));
    if (auto share = kernel.getArgAttrOfType<FloatAttr>(index, "test.bits")) {
      std::bernoulli_distribution isSet(share.getValueAsDouble());
      for (int64_t &value : tensor.mutableInts()) {
        uint32_t word = 0;
        for (int bit = 0; bit < 32; ++bit)
          word |= uint32_t(isSet(engine)) << bit;
        value = static_cast<int32_t>(word);
      }
    } else if (eval::isFloat(tensor.kind()))
      for (double &value : tensor.mutableFloats())
        value = positive   ? 0.1 + std::abs(normal(engine))
                : integral ? std::round(3 * normal(engine))
                           : normal(engine);
    else
      for (int64_t &value : tensor.mutableInts())
        value = integer(engine);
    tensors.push_back(tensor.convertTo(tensor.kind()));
  }
  if (check.forward.empty())
    return tensors;
  auto module = parseSourceString<ModuleOp>(check.forward, kernel.getContext());
  auto forward = *module->getOps<planir::KernelOp>().begin();
  std::vector<Tensor> results = evaluate(
      forward,
      ArrayRef(tensors).drop_front(1 + forward.getResultTypes().size()));
  std::move(results.begin(), results.end(), tensors.begin() + 1);
  return tensors;
}

void expectNear(const Tensor &actual, const Tensor &expected, double tolerance,
                const std::string &what) {
  if (!eval::isFloat(expected.kind())) {
    EXPECT_EQ(actual.ints(), expected.ints()) << what;
    return;
  }
  double squares = 0;
  for (double value : expected.floats())
    if (std::isfinite(value)) // Large numbers are infinite in f16.
      squares += value * value;
  double scale =
      std::sqrt(squares / std::max<int64_t>(1, expected.numElements()));
  // Rounding to a narrow type may fall to the other side.
  if (expected.kind() == eval::ElementKind::BF16)
    tolerance += 0x1p-7;
  if (expected.kind() == eval::ElementKind::F16)
    tolerance += 0x1p-8;
  for (size_t i = 0; i < expected.floats().size(); ++i) {
    double want = expected.floats()[i], got = actual.floats()[i];
    double error = std::abs(got - want);
    bool near = got == want || error <= tolerance * (std::abs(want) + scale);
    ASSERT_TRUE(near) << what << ", element " << i << ": " << got
                      << ", expected " << want;
  }
}

void expectSameBits(const Tensor &actual, const Tensor &expected,
                    const std::string &what) {
  if (eval::isFloat(expected.kind()))
    EXPECT_TRUE(actual.floats() == expected.floats()) << what;
  else
    EXPECT_TRUE(actual.ints() == expected.ints()) << what;
}

namespace {
/// The memory of an operand, aligned as on a GPU, with bytes after it that a
/// kernel must not change.
class GuardedMemory {
public:
  explicit GuardedMemory(int64_t bytes)
      : bytes(bytes), memory(bytes + guard + alignment, poison) {}
  uint8_t *data() {
    auto address = reinterpret_cast<uintptr_t>(memory.data());
    return memory.data() + (alignment - address % alignment) % alignment;
  }
  bool isGuardIntact() {
    return std::all_of(data() + bytes, data() + bytes + guard,
                       [](uint8_t byte) { return byte == poison; });
  }

private:
  static constexpr uint8_t poison = 0xff; // A NaN in every float type.
  static constexpr size_t guard = 64, alignment = 256;

  int64_t bytes;
  std::vector<uint8_t> memory;
};
} // namespace

std::vector<Tensor> execute(planir::KernelOp kernel, ArrayRef<Tensor> arguments,
                            RunKernel run) {
  // In the order of the kernel's operands; a number has an empty one.
  std::vector<GuardedMemory> buffers;
  std::vector<void *> refs;
  for (auto [operand, type] : llvm::enumerate(kernel.getLaunchTypes())) {
    buffers.emplace_back(
        type.isIndex() ? 0 : dist::byteSize(kernel.getBufferType(operand)));
    if (type.isIndex())
      continue;
    if (operand < arguments.size())
      arguments[operand].toBytes(buffers.back().data(),
                                 kernel.getLeadingDimension(operand));
    refs.push_back(buffers.back().data());
  }
  run(refs);
  std::vector<Tensor> results;
  for (auto [number, type] : llvm::enumerate(kernel.getResultTypes())) {
    Tensor like(type);
    unsigned operand = kernel.getLaunchOperandOf(number);
    GuardedMemory &buffer = buffers[operand];
    results.push_back(Tensor::fromBytes(like.kind(), like.shape(),
                                        buffer.data(),
                                        kernel.getLeadingDimension(operand)));
    EXPECT_TRUE(buffer.isGuardIntact()) << "wrote beyond the end of a result";
  }
  return results;
}

} // namespace heddle::test
