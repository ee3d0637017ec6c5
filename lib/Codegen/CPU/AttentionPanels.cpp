//===- AttentionPanels.cpp - Matrices in attention's scratch --------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Copies the factors of attention's products to panels in a thread's scratch
// memory. A panel is a matrix of 32-bit words: one f32 or two bf16. A copy may
// transpose a matrix, or form words from the bf16 elements of two rows.
//
//===----------------------------------------------------------------------===//

#include "AttentionEmitter.h"
#include "dialects/Dist/ComputeType.h"

using namespace mlir;

namespace heddle::cpu {

AttentionEmitter::Panel AttentionEmitter::panel(int64_t scratchOffset,
                                                int64_t row) {
  return {b.advance(scratch, f32, b.constant(scratchOffset)), row};
}

AttentionEmitter::Panel AttentionEmitter::rowsFrom(const Panel &panel,
                                                   Value first) {
  return {b.advance(panel.pointer, f32, b.mul(first, panel.row)), panel.row,
          panel.column};
}

AttentionEmitter::Panel AttentionEmitter::columnsFrom(const Panel &panel,
                                                      Value first) {
  return {b.advance(panel.pointer, f32, b.mul(first, panel.column)), panel.row,
          panel.column};
}

Value AttentionEmitter::vectorAt(const Panel &panel, int64_t row,
                                 int64_t vector) {
  return b.advance(panel.pointer, f32,
                   row * panel.row + vector * blocking.lanes);
}

Value AttentionEmitter::loadVector(Value pointer) {
  return b.load(vectorType, pointer, blocking.lanes * 4);
}

void AttentionEmitter::storeVector(Value value, Value pointer) {
  b.store(value, pointer, blocking.lanes * 4);
}

void AttentionEmitter::storeNatural(Value value, const Panel &panel,
                                    int64_t row, int64_t vector) {
  if (blocking.pairs == 1) {
    storeVector(value, vectorAt(panel, row, vector));
    return;
  }
  b.store(b.create<arith::TruncFOp>(vectorType.clone(spec.elementType), value),
          naturalAt(panel, row, vector), blocking.lanes * 2);
}

Value AttentionEmitter::naturalAt(const Panel &panel, int64_t row,
                                  int64_t vector) {
  return b.advance(panel.pointer, f32,
                   row * panel.row + vector * blocking.lanes / blocking.pairs);
}

void AttentionEmitter::storePaired(Value even, Value odd, Value pointer) {
  // Shuffle as i16, which needs no bf16 instructions.
  auto narrow = [&](Value value) -> Value {
    if (value.getType() == vectorType)
      value =
          b.create<arith::TruncFOp>(vectorType.clone(spec.elementType), value);
    return b.create<LLVM::BitcastOp>(vectorType.clone(b.builder.getI16Type()),
                                     value);
  };
  SmallVector<int64_t> byTurns;
  for (int64_t lane = 0; lane < blocking.lanes; ++lane)
    byTurns.append({lane, lane + blocking.lanes});
  Value words = b.shuffle(narrow(even), narrow(odd), byTurns);
  storeVector(b.create<LLVM::BitcastOp>(vectorType, words), pointer);
}

void AttentionEmitter::pairRows(const Panel &from, Value rows,
                                const Panel &to) {
  if (blocking.pairs == 1)
    return;
  Type type = vectorType.clone(spec.elementType);
  b.forLoop(b.constant(0), pairsOf(rows), 1, [&](Value pair) {
    Panel source = rowsFrom(from, b.mul(pair, 2)), target = rowsFrom(to, pair);
    for (int64_t v = 0; v < blocking.headVectors; ++v) {
      auto load = [&](int64_t row) {
        return b.load(type, naturalAt(source, row, v), blocking.lanes * 2);
      };
      storePaired(load(0), load(1), vectorAt(target, 0, v));
    }
  });
}

Value AttentionEmitter::loadSplat(Value pointer) {
  return splat(b.load(f32, pointer, 4), vectorType);
}

Value AttentionEmitter::splat(Value scalar, VectorType type) {
  return b.create<vector::BroadcastOp>(type, scalar);
}

Value AttentionEmitter::splat(double value) {
  return b.create<arith::ConstantOp>(
      DenseElementsAttr::get(vectorType, static_cast<float>(value)));
}

void AttentionEmitter::packRows(Value source, int64_t stride, Value rows,
                                Value total, const Panel &to) {
  auto forRows = [&](Value begin, Value end,
                     function_ref<Value(Value, int64_t)> get) {
    b.forLoop(begin, end, 1, [&](Value row) {
      Panel target = rowsFrom(to, row);
      for (int64_t v = 0; v < blocking.headVectors; ++v)
        storeNatural(get(row, v), target, 0, v);
    });
  };
  forRows(b.constant(0), rows, [&](Value row, int64_t v) {
    Value from = b.advance(source, spec.elementType, b.mul(row, stride));
    return loadHead(from, v);
  });
  forRows(rows, total, [&](Value, int64_t) { return splat(0.0); });
}

void AttentionEmitter::prefetchRows(const Heads &heads, Value batch, Value head,
                                    Value first, int64_t count) {
  constexpr int64_t lineBytes = 64;
  int64_t ofLine = lineBytes / dist::byteSize(spec.elementType);
  Value end = minimum(b.sub(b.constant(spec.seq), first), count);
  b.forLoop(b.constant(0), end, 1, [&](Value row) {
    Value pointer = rowPointer(heads, batch, head, b.add(first, row));
    for (int64_t element = 0; element < spec.headDim; element += ofLine)
      b.prefetch(b.advance(pointer, spec.elementType, element));
  });
}

void AttentionEmitter::transposeQueries(const Panel &from, double factor,
                                        const Panel &to) {
  int64_t lanes = blocking.lanes;
  auto transposeSquare = [&](const Panel &from, const Panel &to) {
    Values rows;
    for (int64_t r = 0; r < lanes; ++r)
      rows.push_back(loadVector(vectorAt(from, r, 0)));
    // Transpose the matrix of `lanes` rows and columns: swap the off-diagonal
    // quarters of all its squares of size 2, then 4, 8 and so on.
    for (int64_t size = 1; size < lanes; size *= 2) {
      SmallVector<int64_t> upper, lower;
      for (int64_t lane = 0; lane < lanes; ++lane) {
        upper.push_back(lane & size ? lanes + lane - size : lane);
        lower.push_back(lane & size ? lanes + lane : lane + size);
      }
      for (int64_t r = 0; r < lanes; ++r) {
        if (r & size)
          continue;
        Value top = rows[r], bottom = rows[r + size];
        rows[r] = b.shuffle(top, bottom, upper);
        rows[r + size] = b.shuffle(top, bottom, lower);
      }
    }
    for (int64_t r = 0; r < lanes; ++r) {
      Value row = rows[r];
      if (factor != 1.0 && blocking.pairs == 1)
        row = b.create<arith::MulFOp>(row, splat(factor));
      storeVector(row, vectorAt(to, r, 0));
    }
  };
  Value zero = b.constant(0), row = b.constant(blocking.naturalRow());
  b.forLoop(zero, b.constant(blocking.queries()), lanes, [&](Value query) {
    Panel fromRows = rowsFrom(from, query), toColumns = columnsFrom(to, query);
    b.forLoop(zero, row, lanes, [&](Value column) {
      transposeSquare(columnsFrom(fromRows, column),
                      rowsFrom(toColumns, column));
    });
  });
}

void AttentionEmitter::fill(const Panel &to, int64_t rows, double value) {
  Value zero = b.constant(0), end = b.constant(rows * to.row);
  b.forLoop(zero, end, blocking.lanes, [&](Value index) {
    storeVector(splat(value), b.advance(to.pointer, f32, index));
  });
}

} // namespace heddle::cpu
