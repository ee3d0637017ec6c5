//===- ElementEvaluatorTest.cpp - Elements of programs, on any lanes ------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// What is read are constants, so that the code that the evaluator makes can be
// folded: the tests see numbers.

#include "heddle/Codegen/Common/ElementEvaluator.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace heddle::codegen;

namespace {

constexpr int64_t rows = 3, columns = 40, shift = 7;

/// Element (i, j) of %mixed is x[i, j] * table[ids[i], j * 3 % 40] + j + 7 +
/// c, where c is high word of 2^31 * i plus 1; %sum adds its rows.
constexpr const char *program = R"(
#full = affine_map<(i, j) -> (i, j)>
#rows = affine_map<(i, j) -> (i)>
#scalar = affine_map<(i, j) -> ()>
func.func @program(%x: tensor<3x40xf32>, %ids: tensor<3xi32>,
                   %table: tensor<5x40xf32>, %one: tensor<f32>, %s: index)
    -> (tensor<3x40xf32>, tensor<3xf32>, tensor<3xf32>) {
  %three = arith.constant 3 : index
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<3x40xf32>
  %mixed = linalg.generic {indexing_maps = [#full, #rows, #scalar, #full],
                           iterator_types = ["parallel", "parallel"]}
      ins(%x, %ids, %one : tensor<3x40xf32>, tensor<3xi32>, tensor<f32>)
      outs(%e : tensor<3x40xf32>) {
  ^bb0(%a: f32, %id: i32, %o: f32, %unused: f32):
    %c40 = arith.constant 40 : index
    %half = arith.constant 0x80000000 : i32
    %row = arith.index_cast %id : i32 to index
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %j3 = arith.muli %j, %three : index
    %place = arith.remui %j3, %c40 : index
    %t = tensor.extract %table[%row, %place] : tensor<5x40xf32>
    %product = arith.mulf %a, %t : f32
    %moved = arith.addi %j, %s : index
    %narrow = arith.index_cast %moved : index to i32
    %wide = arith.sitofp %narrow : i32 to f32
    %n = arith.index_cast %i : index to i32
    %low, %high = arith.mului_extended %n, %half : i32
    %word = arith.sitofp %high : i32 to f32
    %0 = arith.addf %product, %wide : f32
    %1 = arith.addf %0, %word : f32
    %2 = arith.addf %1, %o : f32
    linalg.yield %2 : f32
  } -> tensor<3x40xf32>
  %er = tensor.empty() : tensor<3xf32>
  %init = linalg.fill ins(%zero : f32) outs(%er : tensor<3xf32>) -> tensor<3xf32>
  %sum = linalg.generic {indexing_maps = [#full, #rows],
                         iterator_types = ["parallel", "reduction"]}
      ins(%mixed : tensor<3x40xf32>) outs(%init : tensor<3xf32>) {
  ^bb0(%a: f32, %running: f32):
    %0 = arith.addf %running, %a : f32
    linalg.yield %0 : f32
  } -> tensor<3xf32>
  return %mixed, %sum, %init : tensor<3x40xf32>, tensor<3xf32>, tensor<3xf32>
}
)";

float xAt(int64_t i, int64_t j) { return static_cast<float>(i * 8 + j % 8); }
int32_t idAt(int64_t i) { return static_cast<int32_t>((i * 2 + 1) % 5); }
float tableAt(int64_t i, int64_t j) {
  return static_cast<float>(i * 100 + j) / 4;
}
float mixedAt(int64_t i, int64_t j) {
  return xAt(i, j) * tableAt(idAt(i), j * 3 % columns) +
         static_cast<float>(j + shift) + static_cast<float>(i / 2) + 1;
}

/// Folds the code that makes `value`.
Attribute valueOf(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return {};
  SmallVector<Attribute> operands;
  for (Value operand : op->getOperands())
    operands.push_back(valueOf(operand));
  SmallVector<OpFoldResult> results;
  if (failed(op->fold(operands, results)))
    return {};
  if (results.empty()) // Folded in place.
    return valueOf(value);
  OpFoldResult result = results[cast<OpResult>(value).getResultNumber()];
  auto attribute = dyn_cast<Attribute>(result);
  return attribute ? attribute : valueOf(cast<Value>(result));
}

template <typename T> std::vector<T> numbersOf(Value value) {
  Attribute attribute = valueOf(value);
  std::vector<T> numbers;
  if (auto dense = dyn_cast_or_null<DenseElementsAttr>(attribute))
    for (Attribute element : dense.getValues<Attribute>())
      if (auto number = dyn_cast<FloatAttr>(element))
        numbers.push_back(static_cast<T>(number.getValueAsDouble()));
      else
        numbers.push_back(static_cast<T>(cast<IntegerAttr>(element).getInt()));
  else if (auto number = dyn_cast_or_null<FloatAttr>(attribute))
    numbers.push_back(static_cast<T>(number.getValueAsDouble()));
  else if (auto whole = dyn_cast_or_null<IntegerAttr>(attribute))
    numbers.push_back(static_cast<T>(whole.getInt()));
  EXPECT_FALSE(numbers.empty()) << "the code does not fold";
  return numbers;
}

/// A number of lanes, and whether coordinates are i64 or index.
class Elements : public testing::TestWithParam<std::tuple<int64_t, bool>> {
protected:
  Elements()
      : context([] {
          DialectRegistry registry;
          registry.insert<arith::ArithDialect, func::FuncDialect,
                          linalg::LinalgDialect, tensor::TensorDialect,
                          vector::VectorDialect>();
          return registry;
        }()),
        builder(&context), lanes(std::get<0>(GetParam())),
        coordinateType(std::get<1>(GetParam()) ? Type(builder.getI64Type())
                                               : Type(builder.getIndexType())) {
    context.loadAllAvailableDialects();
    module = parseSourceString<ModuleOp>(program, &context);
    function = *module->getOps<func::FuncOp>().begin();
    auto returned = function.getBody().front().getTerminator()->getOperands();
    mixed = returned[0];
    sum = returned[1];
    init = returned[2];
    target = ModuleOp::create(builder.getUnknownLoc());
    builder.setInsertionPointToEnd(target->getBody());
  }

  /// An evaluator of the program, whose arguments are what the functions above
  /// say.
  ElementEvaluator makeEvaluator() {
    ElementEvaluator ev(builder, builder.getUnknownLoc(), coordinateType,
                        lanes);
    bind(ev, 0, [](ArrayRef<int64_t> at) { return xAt(at[0], at[1]); });
    bind(ev, 2, [](ArrayRef<int64_t> at) { return tableAt(at[0], at[1]); });
    bind(ev, 3, [](ArrayRef<int64_t>) { return 1.0f; });
    ev.bind(function.getArgument(1), [this](const Point &at) -> Element {
      EXPECT_FALSE(hasLanes(at));
      return {constant(
          builder.getI32IntegerAttr(idAt(numbersOf<int64_t>(at[0].value)[0])))};
    });
    ev.setScalar(function.getArgument(4), coordinate(shift));
    return ev;
  }

  void bind(ElementEvaluator &ev, unsigned argument,
            std::function<float(ArrayRef<int64_t>)> value) {
    auto reader = [this, &read = reads[argument],
                   value](const Point &at) -> Element {
      ++read;
      std::vector<float> values;
      for (int64_t lane = 0; lane < (hasLanes(at) ? lanes : 1); ++lane) {
        SmallVector<int64_t> indices;
        for (const Coordinate &c : at) {
          std::vector<int64_t> known = numbersOf<int64_t>(c.value);
          indices.push_back(c.kind == Coordinate::Scattered ? known[lane]
                            : c.kind == Coordinate::Consecutive
                                ? known[0] + lane
                                : known[0]);
        }
        values.push_back(value(indices));
      }
      if (!hasLanes(at))
        return {constant(builder.getF32FloatAttr(values[0]))};
      return {constant(DenseElementsAttr::get(
                  VectorType::get({lanes}, builder.getF32Type()),
                  ArrayRef(values))),
              Element::Vector};
    };
    ev.bind(function.getArgument(argument), reader);
  }

  Value constant(TypedAttr value) {
    return builder.create<arith::ConstantOp>(builder.getUnknownLoc(), value);
  }
  Value coordinate(int64_t value) {
    return constant(builder.getIntegerAttr(coordinateType, value));
  }
  /// Row `i`, columns `j` to `j` + lanes.
  Point at(int64_t i, int64_t j) {
    return {{coordinate(i)},
            {coordinate(j),
             lanes > 1 ? Coordinate::Consecutive : Coordinate::Uniform}};
  }

  MLIRContext context;
  OpBuilder builder;
  int64_t lanes;
  Type coordinateType;
  OwningOpRef<ModuleOp> module, target;
  func::FuncOp function;
  Value mixed, sum, init;
  std::map<unsigned, int> reads;
};

INSTANTIATE_TEST_SUITE_P(Lanes, Elements,
                         testing::Combine(testing::Values(1, 4, 16),
                                          testing::Bool()));

TEST_P(Elements, AreWhatTheProgramSays) {
  ElementEvaluator ev = makeEvaluator();
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j + lanes <= columns; j += lanes) {
      Element element = ev.evaluate(mixed, at(i, j));
      ASSERT_FALSE(ev.failure()) << ev.failure()->reason;
      EXPECT_EQ(element.kind, lanes > 1 ? Element::Vector : Element::Uniform);
      std::vector<float> values = numbersOf<float>(element.value);
      ASSERT_EQ(static_cast<int64_t>(values.size()), lanes);
      for (int64_t lane = 0; lane < lanes; ++lane)
        EXPECT_EQ(values[lane], mixedAt(i, j + lane)) << i << ", " << j + lane;
    }
}

TEST_P(Elements, OfReductionsAccumulate) {
  ElementEvaluator ev = makeEvaluator();
  auto reduction = sum.getDefiningOp<linalg::GenericOp>();
  Point place = at(2, 16);
  Value before = constant(builder.getF32FloatAttr(0.5));
  if (lanes > 1)
    before = ev.toVector({before});
  std::vector<float> next =
      numbersOf<float>(ev.accumulate(reduction, place, before));
  std::vector<float> terms = numbersOf<float>(ev.term(reduction, place).value);
  ASSERT_EQ(static_cast<int64_t>(next.size()), lanes);
  for (int64_t lane = 0; lane < lanes; ++lane) {
    EXPECT_EQ(next[lane], mixedAt(2, 16 + lane) + 0.5f);
    EXPECT_EQ(terms[lane], mixedAt(2, 16 + lane));
  }
  EXPECT_EQ(numbersOf<float>(ev.evaluate(init, {place[0]}).value)[0], 0);
}

TEST_P(Elements, AreComputedOnceInAScope) {
  ElementEvaluator ev = makeEvaluator();
  Point place = at(1, 0);
  Value outside = ev.evaluate(mixed, place).value;
  Value inside;
  Point other = at(1, 16);
  {
    ElementEvaluator::Scope scope(ev);
    EXPECT_EQ(ev.evaluate(mixed, place).value, outside);
    inside = ev.evaluate(mixed, other).value;
    EXPECT_EQ(ev.evaluate(mixed, other).value, inside);
  }
  EXPECT_NE(ev.evaluate(mixed, other).value, inside);
}

TEST_P(Elements, ReadOutsideOfALoopWhatIsTheSameForAllLanes) {
  ElementEvaluator ev = makeEvaluator();
  ev.hoistConstants(mixed);
  EXPECT_EQ(reads[3], 1);
  for (int64_t j : {0, 16}) {
    ElementEvaluator::Scope scope(ev);
    ev.evaluate(mixed, at(1, j));
  }
  EXPECT_EQ(reads[3], 1);
  EXPECT_EQ(reads[0], 2);
}

TEST_P(Elements, OfAFlatKernelHaveOneCoordinate) {
  ElementEvaluator ev = makeEvaluator();
  ev.setFlat();
  Point place = {{coordinate(8),
                  lanes > 1 ? Coordinate::Consecutive : Coordinate::Uniform}};
  bind(ev, 0, [](ArrayRef<int64_t> at) {
    EXPECT_EQ(at.size(), 1u);
    return static_cast<float>(at[0]);
  });
  Element x = ev.evaluate(function.getArgument(0), place);
  EXPECT_EQ(numbersOf<float>(x.value).back(), static_cast<float>(7 + lanes));
  // Its position in two dimensions is not known.
  ev.bind(function.getArgument(1), [this](const Point &) -> Element {
    return {constant(builder.getI32IntegerAttr(0))};
  });
  ev.evaluate(mixed, place);
  ASSERT_TRUE(ev.failure());
  EXPECT_EQ(ev.failure()->reason, "a position is asked for in a flat kernel");
}

TEST_P(Elements, ThatCannotBeMadeAreNamed) {
  ElementEvaluator reduced = makeEvaluator();
  reduced.evaluate(sum, {{coordinate(0)}});
  ASSERT_TRUE(reduced.failure());
  EXPECT_EQ(reduced.failure()->op, sum.getDefiningOp());
  EXPECT_EQ(reduced.failure()->reason,
            "a reduction is asked for before it is known");
  ElementEvaluator away = makeEvaluator();
  away.bind(function.getArgument(0), [](const Point &) { return Element(); });
  away.evaluate(mixed, at(0, 0));
  ASSERT_TRUE(away.failure());
  EXPECT_EQ(away.failure()->reason, "an element at another position");
  ElementEvaluator unbound(builder, builder.getUnknownLoc(), coordinateType,
                           lanes);
  unbound.evaluate(mixed, at(0, 0));
  ASSERT_TRUE(unbound.failure());
  EXPECT_EQ(unbound.failure()->reason, "an argument has no memory");
}

} // namespace
