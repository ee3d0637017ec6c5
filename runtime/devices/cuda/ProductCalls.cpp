//===- ProductCalls.cpp - The cuBLASLt calls of a product -----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Computes a matrix product by several calls of cuBLASLt if its sizes are not
// aligned: one call for each part of the product.
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/devices/cuda/ProductCalls.h"

using namespace heddle;
using namespace heddle::rt::cuda;
namespace lt = heddle::rt::cublaslt;
using plan::LibraryProduct;

//===----------------------------------------------------------------------===//
// Parts
//===----------------------------------------------------------------------===//

/// Returns the whole product as a ProductPart. The factors and results of its
/// `what` are indices into its `operands`. All leading dimensions are written
/// out, because a later split changes the sizes of the product but not the
/// leading dimensions.
static ProductPart wholeOf(const LibraryProduct &what) {
  ProductPart whole{what, {}};
  LibraryProduct &part = whole.what;
  for (int64_t *operand : {&part.a, &part.b, &part.c, &part.bias, &part.d,
                           &part.aux, &part.sumA, &part.sumB}) {
    if (*operand < 0)
      continue;
    whole.operands.push_back({*operand, 0});
    *operand = int64_t(whole.operands.size()) - 1;
  }
  auto write = [](int64_t &leading, int64_t columns) {
    leading = leading > 0 ? leading : columns;
  };
  write(part.lda, part.transA ? part.m : part.k);
  write(part.ldb, part.transB ? part.k : part.n);
  for (int64_t *leading : {&part.ldc, &part.ldd, &part.ldaux})
    write(*leading, part.n);
  return whole;
}

namespace {
/// How a matrix product is split into an aligned and a remaining product:
/// `size` is the size (m, n or k) that is divided, and `main` is this size in
/// the aligned product.
struct Split {
  int64_t LibraryProduct::*size = nullptr;
  int64_t main = 0;
};
} // namespace

/// Chooses which size to split, if a split makes the product faster. `what`
/// must have explicit leading dimensions.
static Split splitOf(const LibraryProduct &what) {
  int64_t ofFactor = plan::byteSize(what.type);
  int64_t ofResult = plan::byteSize(what.result);
  constexpr int64_t unit = 16; // The alignment, in bytes, that fast accesses
                               // need.
  auto isAligned = [](int64_t leading, int64_t size) {
    return leading * size % unit == 0;
  };
  bool isAlignedA = isAligned(what.lda, ofFactor);
  bool isAlignedB = isAligned(what.ldb, ofFactor);
  bool isAlignedD = isAligned(what.ldd, ofResult) &&
                    (what.c < 0 || isAligned(what.ldc, ofResult)) &&
                    (what.aux < 0 || isAligned(what.ldaux, ofResult));
  auto split = [&](int64_t LibraryProduct::*size) {
    return Split{size, what.*size * ofFactor / unit * unit / ofFactor};
  };
  // Whether a size (m, n or k) in bytes is more than `unit` and no multiple of
  // it, so that the product can be split into an aligned and a remaining one.
  auto isOdd = [&](int64_t LibraryProduct::*size) {
    return split(size).main > 0 && split(size).main < what.*size;
  };
  // With a split of n both calls use the whole factor a, and with a split of m
  // the whole factor b. Do not split so if that factor is also summed over k
  // (`sumA` or `sumB`, for the gradient of a bias): both calls would compute
  // the same sum.
  if (isOdd(&LibraryProduct::n) && isAlignedD && (what.transB || isAlignedB) &&
      what.sumA < 0)
    return split(&LibraryProduct::n);
  if (isOdd(&LibraryProduct::m) && what.transA && isAlignedA && what.sumB < 0)
    return split(&LibraryProduct::m);
  // With a split of k, the first call writes its sums in the type of the
  // result, and the second call adds to them. If that type is 16-bit, an addend
  // `c` would be rounded one time more than without the split.
  bool keepsAddend = what.c < 0 || what.result == plan::DType::F32;
  bool isAlignedK = what.transA ? what.transB && isAlignedB
                                : isAlignedA && (!what.transB || isAlignedB);
  if (isOdd(&LibraryProduct::k) && isAlignedK && keepsAddend && what.sumA < 0 &&
      what.sumB < 0)
    return split(&LibraryProduct::k);
  return {};
}

/// Moves the addresses of the operands to the beginning of the remainder of the
/// split product.
static void moveToRest(ProductPart &part, const Split &split) {
  const LibraryProduct &what = part.what;
  auto move = [&](int64_t operand, int64_t elements, plan::DType type) {
    if (operand >= 0)
      part.operands[operand].bytes += elements * plan::byteSize(type);
  };
  int64_t by = split.main;
  if (split.size == &LibraryProduct::k) {
    move(what.a, what.transA ? by * what.lda : by, what.type);
    move(what.b, what.transB ? by : by * what.ldb, what.type);
    return;
  }
  bool isRows = split.size == &LibraryProduct::m;
  if (isRows)
    move(what.a, what.transA ? by : by * what.lda, what.type);
  else
    move(what.b, what.transB ? by * what.ldb : by, what.type);
  move(what.c, isRows ? by * what.ldc : by, what.result);
  move(what.d, isRows ? by * what.ldd : by, what.result);
  move(what.aux, isRows ? by * what.ldaux : by, what.result);
  if (!isRows)
    move(what.bias, by, what.result);
  move(isRows ? what.sumA : what.sumB, by, what.result);
}

/// After a split of k, the remaining product computes only partial sums.
/// Removes its bias and epilogue, which need the complete sums; the aligned
/// product, which runs second, applies them.
static void leaveSums(LibraryProduct &rest) {
  rest.bias = rest.aux = -1;
  rest.end = plan::ProductEnd::Plain;
}

std::vector<ProductPart> heddle::rt::cuda::partsOf(const LibraryProduct &what,
                                                   double leastFlops) {
  ProductPart main = wholeOf(what);
  bool isOnTensorCores = what.type != plan::DType::F32 || what.tf32;
  double flops = 2.0 * double(what.m) * double(what.n) * double(what.k);
  std::vector<ProductPart> parts;
  while (isOnTensorCores && flops >= leastFlops) {
    Split split = splitOf(main.what);
    if (!split.size)
      break;
    ProductPart rest = main;
    rest.what.*split.size -= split.main;
    moveToRest(rest, split);
    main.what.*split.size = split.main;
    if (split.size == &LibraryProduct::k) {
      leaveSums(rest.what);
      main.what.c = main.what.d;
      main.what.ldc = main.what.ldd;
    }
    parts.push_back(std::move(rest));
  }
  parts.push_back(std::move(main));
  return parts;
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

std::unique_ptr<ProductCalls>
ProductCalls::prepare(const ProductLibrary &library,
                      const std::vector<ProductPart> &parts,
                      Algorithms &known) {
  auto made = std::make_unique<ProductCalls>();
  for (const ProductPart &part : parts) {
    auto call = ProductCall::prepare(library, part.what, known);
    if (!call)
      return nullptr;
    made->calls.push_back({std::move(call), part.operands});
  }
  return made;
}

std::unique_ptr<ProductCalls>
ProductCalls::prepare(const ProductLibrary &library, const LibraryProduct &what,
                      Algorithms &known) {
  std::vector<ProductPart> parts = partsOf(what);
  auto made = prepare(library, parts, known);
  if (!made && parts.size() > 1)
    made = prepare(library, {wholeOf(what)}, known);
  return made;
}

lt::Status ProductCalls::submit(StreamHandle stream, void *const *refs,
                                void *workspace) const {
  for (const Call &call : calls) {
    std::array<void *, ProductPart::mostOperands> operands;
    for (size_t i = 0; i < call.operands.size(); ++i)
      operands[i] = static_cast<char *>(refs[call.operands[i].ref]) +
                    call.operands[i].bytes;
    if (lt::Status status =
            call.product->submit(stream, operands.data(), workspace);
        status != lt::Success)
      return status;
  }
  return lt::Success;
}
