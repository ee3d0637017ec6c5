// RUN: heddle-opt %s --fuse-pad-rows --fuse-verify | FileCheck %s
// RUN: sed 's/target = "sm_90"/target = "x86-64"/' %s | heddle-opt --fuse-pad-rows --fuse-verify | FileCheck %s --check-prefix=CPU

// Rows of 7 f32 begin at multiples of 8 elements where products and kernels over
// rows alone make and read them. What a function returns has no gaps, nor has
// what a kernel takes beside it.
// CPU-NOT: leading_dimensions
nn.model @m family "gpt2" phase "fuse" attributes {
    strategy = #dist.strategy<{target = "sm_90"}>, config = "{}", weights = {}} {
  nn.func @f(%x: tensor<2x4x8xf32>, %w: tensor<8x7xf32>, %v: tensor<7x8xf32>) -> (tensor<2x4x8xf32>, tensor<2x4x7xf32>) {
    %a = plan.launch @linear(%x, %w) : (tensor<2x4x8xf32>, tensor<8x7xf32>) -> tensor<2x4x7xf32>
    %o = plan.launch @linear(%x, %w) : (tensor<2x4x8xf32>, tensor<8x7xf32>) -> tensor<2x4x7xf32>
    %b = plan.launch @add(%a, %o) : (tensor<2x4x7xf32>, tensor<2x4x7xf32>) -> tensor<2x4x7xf32>
    %c = plan.launch @linear_1(%b, %v) : (tensor<2x4x7xf32>, tensor<7x8xf32>) -> tensor<2x4x8xf32>
    %d = plan.launch @linear_2(%x, %w) : (tensor<2x4x8xf32>, tensor<8x7xf32>) -> tensor<2x4x7xf32>
    %e = plan.launch @gelu_tanh(%d) : (tensor<2x4x7xf32>) -> tensor<2x4x7xf32>
    nn.return %c, %e : tensor<2x4x8xf32>, tensor<2x4x7xf32>
  }

  // One row has no next one, and a kernel that is launched twice has one code.
  nn.func @g(%x: tensor<1x8xf32>, %y: tensor<3x8xf32>, %w: tensor<8x7xf32>, %v: tensor<7x8xf32>) -> (tensor<1x8xf32>, tensor<3x7xf32>, tensor<3x8xf32>) {
    %a = plan.launch @linear_3(%x, %w) : (tensor<1x8xf32>, tensor<8x7xf32>) -> tensor<1x7xf32>
    %b = plan.launch @linear_4(%a, %v) : (tensor<1x7xf32>, tensor<7x8xf32>) -> tensor<1x8xf32>
    %c = plan.launch @linear_5(%y, %w) : (tensor<3x8xf32>, tensor<8x7xf32>) -> tensor<3x7xf32>
    %d = plan.launch @linear_5(%y, %w) : (tensor<3x8xf32>, tensor<8x7xf32>) -> tensor<3x7xf32>
    %e = plan.launch @linear_6(%d, %v) : (tensor<3x7xf32>, tensor<7x8xf32>) -> tensor<3x8xf32>
    nn.return %b, %c, %e : tensor<1x8xf32>, tensor<3x7xf32>, tensor<3x8xf32>
  }

  // Rows that a kernel takes as shorter ones have no gaps.
  nn.func @h(%x: tensor<3x8xf32>, %w: tensor<8x12xf32>) -> tensor<3x2x6xf32> {
    %a = plan.launch @linear_7(%x, %w) : (tensor<3x8xf32>, tensor<8x12xf32>) -> tensor<3x12xf32>
    %b = plan.launch @reshape_gelu_tanh(%a) : (tensor<3x12xf32>) -> tensor<3x2x6xf32>
    nn.return %b : tensor<3x2x6xf32>
  }
  // CHECK:     plan.kernel @linear_7(
  // CHECK-NOT: leading_dimensions
  // CHECK:     plan.kernel @reshape_gelu_tanh(
  // CHECK-NOT: leading_dimensions
  // CHECK:     plan.yield
  plan.kernel @linear_7(%x: tensor<3x8xf32>, %w: tensor<8x12xf32>) -> tensor<3x12xf32>
      attributes {generator = #plan.generator<gemm>, ties = array<i64: -1>} {
    %y = nn.linear %x, %w : (tensor<3x8xf32>, tensor<8x12xf32>) -> tensor<3x12xf32>
    plan.yield %y : tensor<3x12xf32>
  }
  plan.kernel @reshape_gelu_tanh(%x: tensor<3x12xf32>) -> tensor<3x2x6xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %a = nn.reshape %x : (tensor<3x12xf32>) -> tensor<3x2x6xf32>
    %b = nn.map gelu_tanh(%a) : tensor<3x2x6xf32>
    plan.yield %b : tensor<3x2x6xf32>
  }

  // Nor have rows that are parts of a longer tensor's.
  nn.func @i(%x: tensor<2x1x8xf32>, %w: tensor<8x7xf32>) -> tensor<2x2x7xf32> {
    %a = plan.launch @linear_8(%x, %w) : (tensor<2x1x8xf32>, tensor<8x7xf32>) -> tensor<2x1x7xf32>
    %b = plan.launch @linear_8(%x, %w) : (tensor<2x1x8xf32>, tensor<8x7xf32>) -> tensor<2x1x7xf32>
    %c = plan.launch @concat(%a, %b) : (tensor<2x1x7xf32>, tensor<2x1x7xf32>) -> tensor<2x2x7xf32>
    nn.return %c : tensor<2x2x7xf32>
  }
  // CHECK:     plan.kernel @linear_8(
  // CHECK-NOT: leading_dimensions
  // CHECK:     plan.kernel @concat(
  // CHECK-NOT: leading_dimensions
  // CHECK:     plan.yield
  plan.kernel @linear_8(%x: tensor<2x1x8xf32>, %w: tensor<8x7xf32>) -> tensor<2x1x7xf32>
      attributes {generator = #plan.generator<gemm>, ties = array<i64: -1>} {
    %y = nn.linear %x, %w : (tensor<2x1x8xf32>, tensor<8x7xf32>) -> tensor<2x1x7xf32>
    plan.yield %y : tensor<2x1x7xf32>
  }
  plan.kernel @concat(%x: tensor<2x1x7xf32>, %y: tensor<2x1x7xf32>) -> tensor<2x2x7xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %z = nn.concat %x, %y dim 1 : (tensor<2x1x7xf32>, tensor<2x1x7xf32>) -> tensor<2x2x7xf32>
    plan.yield %z : tensor<2x2x7xf32>
  }

  // CHECK:      plan.kernel @linear(
  // CHECK-SAME:   leading_dimensions = array<i64: 0, 0, 8>
  plan.kernel @linear(%x: tensor<2x4x8xf32>, %w: tensor<8x7xf32>) -> tensor<2x4x7xf32>
      attributes {generator = #plan.generator<gemm>, ties = array<i64: -1>} {
    %y = nn.linear %x, %w : (tensor<2x4x8xf32>, tensor<8x7xf32>) -> tensor<2x4x7xf32>
    plan.yield %y : tensor<2x4x7xf32>
  }
  // The result takes the first argument's place.
  // CHECK:      plan.kernel @add(
  // CHECK-SAME:   leading_dimensions = array<i64: 8, 8>
  plan.kernel @add(%x: tensor<2x4x7xf32>, %y: tensor<2x4x7xf32>) -> tensor<2x4x7xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: 0>} {
    %z = nn.add %x, %y : tensor<2x4x7xf32>
    plan.yield %z : tensor<2x4x7xf32>
  }
  // CHECK:      plan.kernel @linear_1(
  // CHECK-SAME:   leading_dimensions = array<i64: 8, 0, 0>
  plan.kernel @linear_1(%x: tensor<2x4x7xf32>, %w: tensor<7x8xf32>) -> tensor<2x4x8xf32>
      attributes {generator = #plan.generator<gemm>, ties = array<i64: -1>} {
    %y = nn.linear %x, %w : (tensor<2x4x7xf32>, tensor<7x8xf32>) -> tensor<2x4x8xf32>
    plan.yield %y : tensor<2x4x8xf32>
  }
  // CHECK-NOT: leading_dimensions
  plan.kernel @linear_2(%x: tensor<2x4x8xf32>, %w: tensor<8x7xf32>) -> tensor<2x4x7xf32>
      attributes {generator = #plan.generator<gemm>, ties = array<i64: -1>} {
    %y = nn.linear %x, %w : (tensor<2x4x8xf32>, tensor<8x7xf32>) -> tensor<2x4x7xf32>
    plan.yield %y : tensor<2x4x7xf32>
  }
  plan.kernel @gelu_tanh(%x: tensor<2x4x7xf32>) -> tensor<2x4x7xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %y = nn.map gelu_tanh(%x) : tensor<2x4x7xf32>
    plan.yield %y : tensor<2x4x7xf32>
  }
  plan.kernel @linear_3(%x: tensor<1x8xf32>, %w: tensor<8x7xf32>) -> tensor<1x7xf32>
      attributes {generator = #plan.generator<gemm>, ties = array<i64: -1>} {
    %y = nn.linear %x, %w : (tensor<1x8xf32>, tensor<8x7xf32>) -> tensor<1x7xf32>
    plan.yield %y : tensor<1x7xf32>
  }
  plan.kernel @linear_4(%x: tensor<1x7xf32>, %w: tensor<7x8xf32>) -> tensor<1x8xf32>
      attributes {generator = #plan.generator<gemm>, ties = array<i64: -1>} {
    %y = nn.linear %x, %w : (tensor<1x7xf32>, tensor<7x8xf32>) -> tensor<1x8xf32>
    plan.yield %y : tensor<1x8xf32>
  }
  plan.kernel @linear_5(%x: tensor<3x8xf32>, %w: tensor<8x7xf32>) -> tensor<3x7xf32>
      attributes {generator = #plan.generator<gemm>, ties = array<i64: -1>} {
    %y = nn.linear %x, %w : (tensor<3x8xf32>, tensor<8x7xf32>) -> tensor<3x7xf32>
    plan.yield %y : tensor<3x7xf32>
  }
  plan.kernel @linear_6(%x: tensor<3x7xf32>, %w: tensor<7x8xf32>) -> tensor<3x8xf32>
      attributes {generator = #plan.generator<gemm>, ties = array<i64: -1>} {
    %y = nn.linear %x, %w : (tensor<3x7xf32>, tensor<7x8xf32>) -> tensor<3x8xf32>
    plan.yield %y : tensor<3x8xf32>
  }
}
