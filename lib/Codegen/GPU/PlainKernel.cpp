//===- PlainKernel.cpp - Reference data for `BINARY check` ----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Describes how the compiled program's command `check` compares a kernel with
// its plain reference kernel. For inputs, it gives ranges in which the kernel
// is defined, for example ids of existing rows, or positive variances. For
// results, it gives tolerances.
//
//===----------------------------------------------------------------------===//

#include "MultiplyUnit.h"
#include "dialects/Dist/ComputeType.h"
#include "dialects/NN/NNDialect.h"
#include "dialects/NN/SignLayout.h"
#include "dialects/Plan/PlanFormat.h"
#include "heddle/Codegen/GPU/Kernels.h"
#include "heddle/PlanFormat/PtxImage.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/TypeSwitch.h"
#include <cmath>
#include <limits>
#include <numeric>

using namespace mlir;

namespace heddle::gpu {

namespace {
struct Range {
  double low, high;
  /// If it is not 0: the elements are no random numbers (see
  /// plan::PlainKernel::Argument).
  int64_t step = 0;
};
constexpr Range positive = {0.25, 1};
} // namespace

static int64_t sizeOf(Value tensor, int64_t dim) {
  auto type = cast<RankedTensorType>(tensor.getType());
  return type.getDimSize(dim < 0 ? type.getRank() + dim : dim);
}

static Range below(int64_t end) {
  return {0, static_cast<double>(std::max<int64_t>(end - 1, 0))};
}

/// The range of labels: ids below `columns`, or -1, which means no label.
static Range labels(int64_t columns) {
  return {-1, static_cast<double>(columns - 1)};
}

/// The range of an input that is the logarithm of a sum of `count`
/// exponentials. The exponents are small numbers.
static Range logOfSum(int64_t count) {
  double log = std::log(static_cast<double>(count));
  return {log, log + 1};
}

/// Whether an argument of a scalar body must be positive, because a root, a
/// logarithm or a quotient depends on it.
static bool mustBePositive(Value value) {
  return llvm::any_of(value.getUses(), [](OpOperand &use) {
    Operation *op = use.getOwner();
    if (isa<math::SqrtOp, math::RsqrtOp, math::LogOp, math::PowFOp>(op))
      return true;
    if (isa<arith::DivFOp>(op) && use.getOperandNumber() == 1)
      return true;
    return isa<arith::AddFOp, arith::SubFOp, arith::MulFOp, arith::DivFOp,
               arith::MaximumFOp, arith::MinimumFOp>(op) &&
           mustBePositive(op->getResult(0));
  });
}

static std::optional<Range> rangeOfLoss(Operation *op, Value value) {
  return TypeSwitch<Operation *, std::optional<Range>>(op)
      .Case<nn::CrossEntropyOp>([&](auto loss) -> std::optional<Range> {
        if (value == loss.getLabels())
          return labels(sizeOf(loss.getLogits(), -1));
        return std::nullopt;
      })
      .Case<nn::CrossEntropyGradOp>([&](auto loss) -> std::optional<Range> {
        int64_t columns = sizeOf(loss.getLogits(), -1);
        if (value == loss.getLabels())
          return labels(columns);
        if (value == loss.getLse())
          return logOfSum(columns);
        return std::nullopt;
      })
      .Case<nn::CrossEntropyPartOp>([&](auto loss) -> std::optional<Range> {
        if (value == loss.getLabels())
          return labels(static_cast<int64_t>(loss.getVocab()));
        return std::nullopt;
      })
      .Case<nn::CrossEntropyJoinOp, nn::CountLabelsOp, nn::TokenWeightsOp>(
          [&](auto loss) -> std::optional<Range> {
            if (value == loss.getLabels())
              return labels(2);
            return std::nullopt;
          })
      .Case<nn::LossScaleOp>([](auto) {
        return std::optional<Range>({1, 100});
      })
      .Default([](Operation *) { return std::nullopt; });
}

/// The largest odd number of at most 0.62 `count` that has no factor in common
/// with `count`: multiples of it are spread over all numbers below `count`.
static int64_t spreadingStep(int64_t count) {
  int64_t step = std::max<int64_t>(count * 62 / 100, 1) | 1;
  while (std::gcd(step, count) != 1)
    step -= 2;
  return step;
}

/// The range of an operand of nn.cache_write or nn.paged_attention. No two
/// tokens have the same position in the same page, if there are enough pages.
template <typename OpT>
static std::optional<Range> rangeInCache(OpT op, Value value) {
  if (value == op.getPages()) {
    Range pages = below(sizeOf(op.getKeys(), 0));
    pages.step = 1;
    return pages;
  }
  if (value == op.getPositions()) {
    int64_t context = sizeOf(op.getPages(), 1) * op.getPageTokens();
    Range positions = below(context);
    positions.step = spreadingStep(context);
    return positions;
  }
  if (value == op.getLengths())
    return Range{1, static_cast<double>(sizeOf(op.getPositions(), 1))};
  if (value == op.getScales())
    return positive;
  if (getElementTypeOrSelf(value.getType()).isInteger(8))
    return Range{-127, 127};
  return std::nullopt;
}

/// The range of an operand of an operation on signs: words are any bits.
static std::optional<Range> rangeOfSigns(Value value) {
  if (getElementTypeOrSelf(value.getType()).isInteger(32))
    return Range{std::numeric_limits<int32_t>::min(),
                 std::numeric_limits<int32_t>::max()};
  return std::nullopt;
}

/// The range in which an operation requires the elements of one of its operands
/// to be.
static std::optional<Range> rangeOf(OpOperand &use) {
  Value value = use.get();
  if (std::optional<Range> ofLoss = rangeOfLoss(use.getOwner(), value))
    return ofLoss;
  auto rstd = [&](auto norm) -> std::optional<Range> {
    if (value == norm.getRstd())
      return positive;
    return std::nullopt;
  };
  using Answer = std::optional<Range>;
  return TypeSwitch<Operation *, Answer>(use.getOwner())
      .Case<nn::EmbeddingOp>([&](auto op) -> Answer {
        return value == op.getIds() ? Answer(below(sizeOf(op.getTable(), 0)))
                                    : std::nullopt;
      })
      .Case<nn::EmbeddingGradOp>([&](auto op) -> Answer {
        return value == op.getIds() ? Answer(below(sizeOf(op.getOutput(), 0)))
                                    : std::nullopt;
      })
      .Case<nn::ReorderOp>([&](auto op) -> Answer {
        return value == op.getOrder() ? Answer(below(sizeOf(op.getInput(), -1)))
                                      : std::nullopt;
      })
      .Case<nn::TakeRowOp>([&](auto op) -> Answer {
        return value == op.getPosition()
                   ? Answer(below(sizeOf(op.getInput(), 1)))
                   : std::nullopt;
      })
      .Case<nn::RotaryOp>([&](auto op) -> Answer {
        return value == op.getPositions()
                   ? Answer(below(sizeOf(op.getInput(), 1)))
                   : std::nullopt;
      })
      .Case<nn::CacheWriteOp, nn::PagedAttentionOp>(
          [&](auto op) { return rangeInCache(op, value); })
      .Case<nn::PagedAttentionJoinOp>([&](auto op) -> Answer {
        if (value == op.getLengths())
          return Range{1, static_cast<double>(sizeOf(op.getPositions(), 1))};
        if (value == op.getPositions())
          return below(op.getNumParts() *
                       static_cast<int64_t>(op.getPartTokens()));
        return positive;
      })
      .Case<nn::AttentionOp, nn::AttentionGradOp>([&](auto op) -> Answer {
        int64_t keys = sizeOf(op.getQkv()[0], 1) * op.getSequenceShards();
        if (value == op.getLengths())
          return Range{1, static_cast<double>(keys)};
        if (auto grad = dyn_cast<nn::AttentionGradOp>(op.getOperation()))
          if (value == grad.getLse())
            return logOfSum(keys);
        return std::nullopt;
      })
      .Case<nn::LayerNormGradInputOp, nn::LayerNormGradWeightOp,
            nn::RmsNormGradInputOp, nn::RmsNormGradWeightOp>(rstd)
      .Case<nn::GlobalNormOp, nn::AdvancePowerOp, nn::CountUpdateOp>(
          [&](auto) -> Answer { return positive; })
      .Case<nn::TakeRateOp>([&](auto op) -> Answer {
        return value == op.getCount() ? Answer(Range{0, 100}) : std::nullopt;
      })
      .Case<nn::MeanSignsOp, nn::UnpackSignsOp>(
          [&](auto) { return rangeOfSigns(value); })
      .Case<nn::MapOp, nn::UpdateOp>([&](auto op) -> Answer {
        Block &body = op->getRegion(0).front();
        bool isOfBody = use.getOperandNumber() < body.getNumArguments();
        return isOfBody &&
                       mustBePositive(body.getArgument(use.getOperandNumber()))
                   ? Answer(positive)
                   : std::nullopt;
      })
      .Default([](Operation *) { return std::nullopt; });
}

/// Returns the index of a rank's first row, if the rank has the last rows of an
/// operation on signs. The last chunks have padding, or no elements.
static int64_t lastRowOfSigns(Operation *op) {
  auto mean = dyn_cast<nn::MeanSignsOp>(op);
  int64_t rows =
      mean ? sizeOf(mean.getWords(), 1) : sizeOf(op->getResult(0), 0);
  return nn::signLayoutOf(op).parts - rows;
}

/// Returns the value that a scalar argument, such as the index of a layer or a
/// micro-batch, has when the compiled program's command `check` compares the
/// kernels. It is not 0 if possible, so that a kernel that ignores the argument
/// gets other results.
static int64_t scalarFor(BlockArgument argument) {
  for (Operation *user : argument.getUsers()) {
    if (isa<nn::SignScalesOp, nn::JoinScalesOp, nn::PackSignsOp,
            nn::MeanSignsOp>(user))
      return lastRowOfSigns(user);
    Value layer, microBatch, part;
    int64_t parts = 1;
    if (auto attention = dyn_cast<nn::AttentionOpInterface>(user)) {
      layer = attention.getLayer();
      microBatch = attention.getMicroBatch();
      part = attention.getPart();
      parts = attention.getParts();
    } else if (auto paged = dyn_cast<nn::PagedAttentionOp>(user)) {
      part = paged.getPart();
      if (paged.getLayout())
        parts = sizeOf(paged.getLayout(), 0) / paged.getHeads().getCount();
    } else if (auto dropout = dyn_cast<nn::DropoutOp>(user)) {
      layer = dropout.getLayer();
      microBatch = dropout.getMicroBatch();
    }
    if (argument == layer)
      return 2;
    if (argument == microBatch)
      return 1;
    if (argument == part)
      return parts - 1;
  }
  return 0;
}

/// The number of elements in an operand's buffer, including the padding between
/// rows.
static int64_t elementsOf(planir::KernelOp kernel, unsigned operand) {
  Type type = kernel.getBufferType(operand);
  return dist::byteSize(type) / dist::byteSize(getElementTypeOrSelf(type));
}

static plan::PlainKernel::Argument describe(planir::KernelOp kernel,
                                            BlockArgument argument) {
  plan::PlainKernel::Argument result;
  auto type = dyn_cast<RankedTensorType>(argument.getType());
  if (!type) {
    result.isScalar = true;
    result.type = plan::DType::I64;
    result.low = result.high = static_cast<double>(scalarFor(argument));
    return result;
  }
  result.type = planir::dtypeOf(type.getElementType());
  result.elements = elementsOf(kernel, argument.getArgNumber());
  if (!isa<FloatType>(type.getElementType()))
    result.low = 0;
  for (OpOperand &use : argument.getUses())
    if (std::optional<Range> range = rangeOf(use)) {
      result.low = range->low;
      result.high = range->high;
      result.step = range->step;
    }
  return result;
}

/// Returns the relative tolerance of results. The kernel and its reference add
/// the same terms, but in a different order, and each addition has an error of
/// one f32 ulp of either sign. Tensor cores truncate, which adds more error.
/// Some units round the operands of a product.
static double toleranceOf(planir::KernelOp kernel, int64_t longestSum,
                          const Chip &chip) {
  // Intermediate values of narrow types are rounded, in either direction.
  double ofRounding = 0;
  for (Operation &op : kernel.getBody().front())
    for (Type type :
         llvm::make_filter_range(op.getResultTypes(), dist::isNarrow)) {
      auto element = cast<FloatType>(getElementTypeOrSelf(type));
      int digits = APFloat::semanticsPrecision(element.getFloatSemantics());
      ofRounding = std::max(ofRounding, std::ldexp(4.0, -digits));
    }
  if (ofRounding > 0)
    return ofRounding;
  double ofOperands = 0;
  if (kernel.getGenerator() == nn::Generator::Gemm)
    if (auto products = codegen::describeProducts(kernel); succeeded(products))
      for (const codegen::Product &product : *products)
        ofOperands = std::max(ofOperands, unitFor(product, chip).tolerance());
  double ofTerm = llvm::any_of(kernel.getArgumentTypes(), dist::isNarrow)
                      ? 0x1p-18
                      : 0x1p-21;
  double ofSum = ofTerm * std::sqrt(static_cast<double>(longestSum));
  return std::max({0x1p-17, ofOperands, ofSum});
}

static plan::PlainKernel describe(planir::KernelOp kernel,
                                  const PlainMapping &mapped,
                                  const Chip &chip) {
  plan::PlainKernel result;
  for (const MappedLaunch &mappedLaunch : mapped.launches) {
    CompiledKernel::Launch launch = launchOf(mappedLaunch);
    plan::GridLaunch plain;
    plain.symbol = launch.symbol;
    llvm::copy(launch.grid, plain.grid.begin());
    llvm::copy(launch.block, plain.block.begin());
    result.launches.push_back(plain);
  }
  result.terms.assign(mapped.terms.begin(), mapped.terms.end());
  result.scratchBytes = mapped.scratchBytes;
  for (BlockArgument argument : kernel.getBody().getArguments())
    result.arguments.push_back(describe(kernel, argument));
  double tolerance = toleranceOf(kernel, mapped.longestSum, chip);
  for (auto [number, type] : llvm::enumerate(kernel.getResultTypes())) {
    auto tensor = cast<RankedTensorType>(type);
    bool isFloat = isa<FloatType>(tensor.getElementType());
    unsigned operand = kernel.getLaunchOperandOf(number);
    int64_t columns = tensor.getRank() ? tensor.getShape().back() : 1;
    int64_t leading = kernel.getLeadingDimension(operand);
    result.results.push_back(
        {planir::dtypeOf(tensor.getElementType()), elementsOf(kernel, operand),
         columns, leading ? leading : columns, kernel.getTies()[number],
         isFloat ? tolerance : 0});
  }
  return result;
}

std::string plainNameOf(StringRef object) { return (object + "_plain").str(); }

FailureOr<std::string> compilePlain(planir::KernelOp kernel, const Chip &chip) {
  OwningOpRef<ModuleOp> scratch(ModuleOp::create(kernel.getLoc()));
  auto builder = OpBuilder::atBlockEnd(scratch->getBody());
  auto module = builder.create<mlir::gpu::GPUModuleOp>(kernel.getLoc(),
                                                       kernel.getSymName());
  FailureOr<PlainMapping> mapped = mapPlain(kernel, module);
  if (failed(mapped))
    return failure();
  if (!*mapped)
    return kernel.emitError("H0911: has no plain form: ") << mapped->reason;
  plan::PlainKernel result = describe(kernel, *mapped, chip);
  if (failed(lowerToNvvm(module)))
    return failure();
  llvm::Expected<std::string> ptx = emitPtx(module, chip.name);
  if (!ptx)
    return kernel.emitError() << llvm::toString(ptx.takeError());
  result.text = *ptx;
  return plan::writePlainKernel(result);
}

} // namespace heddle::gpu
