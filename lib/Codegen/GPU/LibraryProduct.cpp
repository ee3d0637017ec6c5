//===- LibraryProduct.cpp - Products for cuBLASLt -------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Describes a product's kernel as one call of cuBLASLt, if one call can compute
// everything: the product, an addend, GELU or its derivative as the epilogue,
// and the sums of one operand along k. For a kernel with other operations in
// its body, for example dropout, the runtime always uses Heddle's code.
//
//===----------------------------------------------------------------------===//

#include "dialects/Dist/ComputeType.h"
#include "heddle/Codegen/Common/Product.h"
#include "heddle/Codegen/GPU/Kernels.h"

using namespace mlir;
using heddle::planir::LibraryProductAttr;
using heddle::planir::ProductEnd;

namespace heddle::gpu {

namespace {
class CallReader {
public:
  CallReader(planir::KernelOp kernel, const codegen::Product &product)
      : kernel(kernel), product(product) {}

  /// Describes the kernel as a call of cuBLASLt. Returns null if one call
  /// cannot compute it.
  LibraryProductAttr read(bool tf32);

private:
  bool readAddend();
  bool readFactorSum();
  bool readEnd();
  bool readResults();
  bool typesFit();
  bool isInOwnMemory();
  int64_t addressOf(Value argument);
  int64_t addressOfResult(Value value);
  int64_t leadingDimensionOf(int64_t address);

  planir::KernelOp kernel;
  const codegen::Product &product;
  Value result;    ///< The value that the call writes to d.
  Value auxiliary; ///< The second matrix that the epilogue reads or writes.
  ProductEnd end = ProductEnd::Plain;
  int64_t c = -1, bias = -1, d = -1, aux = -1, sumA = -1, sumB = -1;
};
} // namespace

/// The index of an argument in the list of addresses that a launch passes; -1
/// if the value is no argument.
int64_t CallReader::addressOf(Value argument) {
  auto place = dyn_cast_or_null<BlockArgument>(argument);
  if (!place)
    return -1;
  auto before = kernel.getArgumentTypes().take_front(place.getArgNumber());
  return llvm::count_if(before, llvm::IsaPred<RankedTensorType>);
}

/// The index of a kernel's result in the list of addresses that a launch
/// passes; -1 if the value is no result.
int64_t CallReader::addressOfResult(Value value) {
  Block &body = kernel.getBody().front();
  int64_t next = llvm::count_if(kernel.getArgumentTypes(),
                                llvm::IsaPred<RankedTensorType>);
  for (auto [yielded, tie] :
       llvm::zip(body.getTerminator()->getOperands(), kernel.getTies())) {
    int64_t address = tie < 0 ? next++ : addressOf(body.getArgument(tie));
    if (yielded == value)
      return address;
  }
  return -1;
}

/// The leading dimension of the tensor at one of the launch's addresses; 0 if
/// its rows have no padding.
int64_t CallReader::leadingDimensionOf(int64_t address) {
  for (auto [operand, type] : llvm::enumerate(kernel.getLaunchTypes()))
    if (isa<RankedTensorType>(type) && address-- == 0)
      return kernel.getLeadingDimension(operand);
  return 0;
}

bool CallReader::readAddend() {
  if (!product.addend)
    return true;
  int64_t address = addressOf(product.addend);
  (product.addendIsRow ? bias : c) = address;
  return address >= 0;
}

/// Reads the sums of an operand along k. Returns false if cuBLASLt cannot
/// compute them: the library computes such sums for at most one operand, and
/// cannot add them to initial values.
bool CallReader::readFactorSum() {
  if (product.sums.empty())
    return true;
  auto sum = cast<nn::SumRowsOp>(product.sums[0]);
  int64_t address = addressOfResult(sum.getOutput());
  (product.sumsA ? sumA : sumB) = address;
  return product.sums.size() == 1 && !sum.getInit() && address >= 0;
}

/// Reads the operations after the product. Returns false if there is more than
/// one, since a call has one epilogue.
bool CallReader::readEnd() {
  result = product.result();
  for (Operation &op : kernel.getBody().front().without_terminator()) {
    if (&op == product.op || llvm::is_contained(product.sums, &op))
      continue;
    if (result != product.result())
      return false;
    Value sums = product.result();
    if (auto add = dyn_cast<nn::AddOp>(op)) {
      Value other = add.getLhs() == sums ? add.getRhs() : add.getLhs();
      if (c >= 0 || (add.getLhs() != sums && add.getRhs() != sums))
        return false;
      c = addressOf(other);
      if (c < 0)
        return false;
    } else if (auto map = dyn_cast<nn::MapOp>(op)) {
      StringRef name = map.getFunction() ? map.getFunction()->getName() : "";
      if (name == "gelu_tanh" && map.getInputs()[0] == sums && c < 0) {
        end = ProductEnd::GeluTanh;
      } else if (name == "gelu_tanh_grad" && map.getInputs()[0] == sums &&
                 c < 0 && bias < 0) {
        end = ProductEnd::GeluTanhGrad;
        auxiliary = map.getInputs()[1];
        aux = addressOf(auxiliary);
        if (aux < 0)
          return false;
      } else {
        return false;
      }
    } else {
      return false;
    }
    result = op.getResult(0);
  }
  return true;
}

bool CallReader::readResults() {
  auto yielded = kernel.getBody().front().getTerminator()->getOperands();
  for (Value value : yielded) {
    if (value == result || product.isSum(value))
      continue;
    if (value != product.result() || end != ProductEnd::GeluTanh)
      return false;
    auxiliary = value;
    aux = addressOfResult(value);
  }
  d = addressOfResult(result);
  // The product's result, the input of GELU and the sums of an operand along k
  // (the gradient of a bias) must each be a result of the kernel exactly once,
  // since the call of the library writes each to one address.
  bool writesAux = end == ProductEnd::GeluTanh && aux >= 0;
  return d >= 0 &&
         yielded.size() == 1 + size_t(writesAux) + product.sums.size();
}

/// The addend and all results must have the same type.
bool CallReader::typesFit() {
  auto typeOf = [](Value value) {
    return getElementTypeOrSelf(value.getType());
  };
  Type factors = typeOf(product.a), sums = typeOf(product.result());
  bool isKnown = sums == factors || (dist::isNarrow(factors) && sums.isF32());
  Block &body = kernel.getBody().front();
  for (BlockArgument argument : body.getArguments())
    if (argument != product.a && argument != product.b &&
        typeOf(argument) != sums)
      return false;
  for (Type type : kernel.getResultTypes())
    if (getElementTypeOrSelf(type) != sums)
      return false;
  return isKnown && typeOf(product.b) == factors;
}

/// Whether results are in memory of their own. The library reads operands while
/// it writes results, so that only the addend c may be in the same memory as
/// the result d.
bool CallReader::isInOwnMemory() {
  int64_t a = addressOf(product.a), b = addressOf(product.b);
  bool writesAux = end == ProductEnd::GeluTanh && aux >= 0;
  for (int64_t read : {a, b, bias})
    if (read == d || (writesAux && read == aux))
      return false;
  return d != aux && (!writesAux || c != aux);
}

LibraryProductAttr CallReader::read(bool tf32) {
  if (!readAddend() || !readFactorSum() || !readEnd() || !readResults() ||
      !typesFit() || !isInOwnMemory())
    return {};
  // This workspace is enough for split-K in eight parts. It is within the size
  // that NVIDIA recommends for sm_90.
  int64_t workspace =
      std::min<int64_t>(int64_t(32) << 20, 8 * 4 * product.m * product.n);
  Type factors = getElementTypeOrSelf(product.a.getType());
  return LibraryProductAttr::get(
      kernel.getContext(), product.m, product.n, product.k, product.transA,
      product.transB, factors, getElementTypeOrSelf(result.getType()),
      addressOf(product.a), addressOf(product.b), c, bias, d, aux, sumA, sumB,
      leadingDimensionOf(addressOf(product.a)),
      leadingDimensionOf(addressOf(product.b)), leadingDimensionOf(c),
      leadingDimensionOf(d), leadingDimensionOf(aux), end,
      tf32 && factors.isF32(), workspace);
}

FailureOr<LibraryProductAttr> libraryProductOf(planir::KernelOp kernel) {
  config::Settings settings = settingsOf(kernel->getParentOp());
  if (settings.gemm == config::Gemm::Generated ||
      kernel.getGenerator() != nn::Generator::Gemm)
    return LibraryProductAttr();
  FailureOr<SmallVector<codegen::Product, 1>> products =
      codegen::describeProducts(kernel);
  if (failed(products))
    return failure();
  if (products->front().bits > 0) // The library reads no packed weights.
    return LibraryProductAttr();
  FailureOr<codegen::Product> product = codegen::soleProduct(kernel, *products);
  if (failed(product))
    return failure();
  return CallReader(kernel, *product)
      .read(settings.matmul == config::Matmul::Tf32);
}

} // namespace heddle::gpu
