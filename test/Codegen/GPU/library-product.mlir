// RUN: heddle-opt %s "-gpu-compile-kernels=chip=sm_90" 2>/dev/null | FileCheck %s
// RUN: heddle-opt %s "-gpu-compile-kernels=chip=sm_90" 2>/dev/null | heddle-opt | FileCheck %s

// CHECK:      plan.kernel @plain
// CHECK-SAME:   library = #plan.library_product<m = 5, n = 7, k = 3, type = f32, result = f32, a = 0, b = 1, d = 2, workspace = 1120>
plan.kernel @plain(%x: tensor<5x3xf32>, %w: tensor<3x7xf32>) -> tensor<5x7xf32>
    attributes {generator = #plan.generator<gemm>, ties = array<i64: -1>} {
  %y = nn.linear %x, %w : (tensor<5x3xf32>, tensor<3x7xf32>) -> tensor<5x7xf32>
  plan.yield %y : tensor<5x7xf32>
}

// The bias, and the residual in whose place the result comes.
// CHECK:      plan.kernel @residual
// CHECK-SAME:   trans_b = true
// CHECK-SAME:   a = 0, b = 1, c = 3, bias = 2, d = 3, workspace
plan.kernel @residual(%x: tensor<5x3xbf16>, %w: tensor<7x3xbf16>, %b: tensor<7xbf16>, %r: tensor<5x7xbf16>) -> tensor<5x7xbf16>
    attributes {generator = #plan.generator<gemm>, ties = array<i64: 3>} {
  %y = nn.linear %x, %w bias %b {transposed} : (tensor<5x3xbf16>, tensor<7x3xbf16>, tensor<7xbf16>) -> tensor<5x7xbf16>
  %z = nn.add %r, %y : tensor<5x7xbf16>
  plan.yield %z : tensor<5x7xbf16>
}

// CHECK:      plan.kernel @gelu
// CHECK-SAME:   a = 0, b = 1, bias = 2, d = 4, aux = 3, end = gelu_tanh, workspace
plan.kernel @gelu(%x: tensor<5x3xf32>, %w: tensor<3x8xf32>, %b: tensor<8xf32>) -> (tensor<5x8xf32>, tensor<5x8xf32>)
    attributes {generator = #plan.generator<gemm>, ties = array<i64: -1, -1>} {
  %y = nn.linear %x, %w bias %b : (tensor<5x3xf32>, tensor<3x8xf32>, tensor<8xf32>) -> tensor<5x8xf32>
  %z = nn.map gelu_tanh(%y) : tensor<5x8xf32>
  plan.yield %y, %z : tensor<5x8xf32>, tensor<5x8xf32>
}

// CHECK:      plan.kernel @gelu_grad
// CHECK-SAME:   a = 0, b = 1, d = 3, aux = 2, end = gelu_tanh_grad, workspace
plan.kernel @gelu_grad(%g: tensor<5x3xf32>, %w: tensor<3x8xf32>, %x: tensor<5x8xf32>) -> tensor<5x8xf32>
    attributes {generator = #plan.generator<gemm>, ties = array<i64: -1>} {
  %y = nn.linear %g, %w : (tensor<5x3xf32>, tensor<3x8xf32>) -> tensor<5x8xf32>
  %z = nn.map gelu_tanh_grad(%y, %x) : tensor<5x8xf32>
  plan.yield %z : tensor<5x8xf32>
}

// A gradient goes onto what stands there, in f32.
// CHECK:      plan.kernel @onto
// CHECK-SAME:   trans_a = true, type = bf16, result = f32, a = 0, b = 1, c = 2, d = 2
plan.kernel @onto(%x: tensor<5x3xbf16>, %g: tensor<5x7xbf16>, %sum: tensor<3x7xf32>) -> tensor<3x7xf32>
    attributes {generator = #plan.generator<gemm>, ties = array<i64: 2>} {
  %y = nn.linear_grad_weight %x, %g init %sum : (tensor<5x3xbf16>, tensor<5x7xbf16>, tensor<3x7xf32>) -> tensor<3x7xf32>
  plan.yield %y : tensor<3x7xf32>
}

// The gradients of a weight and its bias; the weight may be stored [out, in].
// CHECK:      plan.kernel @bias_grad
// CHECK-SAME:   trans_a = true, type = bf16, result = f32, a = 0, b = 1, d = 2, sum_b = 3, workspace
// CHECK:      plan.kernel @transposed_bias_grad
// CHECK-SAME:   m = 7, n = 3, k = 5, trans_a = true, type = f32, result = f32, a = 1, b = 0, c = 2, d = 2, sum_a = 3, workspace
plan.kernel @bias_grad(%x: tensor<5x3xbf16>, %g: tensor<5x7xbf16>) -> (tensor<3x7xf32>, tensor<7xf32>)
    attributes {generator = #plan.generator<gemm>, ties = array<i64: -1, -1>} {
  %y = nn.linear_grad_weight %x, %g : (tensor<5x3xbf16>, tensor<5x7xbf16>) -> tensor<3x7xf32>
  %s = nn.sum_rows %g : (tensor<5x7xbf16>) -> tensor<7xf32>
  plan.yield %y, %s : tensor<3x7xf32>, tensor<7xf32>
}
plan.kernel @transposed_bias_grad(%x: tensor<5x3xf32>, %g: tensor<5x7xf32>, %sum: tensor<7x3xf32>) -> (tensor<7xf32>, tensor<7x3xf32>)
    attributes {generator = #plan.generator<gemm>, ties = array<i64: -1, 2>} {
  %y = nn.linear_grad_weight %x, %g init %sum {transposed} : (tensor<5x3xf32>, tensor<5x7xf32>, tensor<7x3xf32>) -> tensor<7x3xf32>
  %s = nn.sum_rows %g : (tensor<5x7xf32>) -> tensor<7xf32>
  plan.yield %s, %y : tensor<7xf32>, tensor<7x3xf32>
}

// What the library cannot do: a sum onto another, or of another type.
// CHECK:      plan.kernel @bias_grad_onto
// CHECK-NOT:    library =
// CHECK:      plan.kernel @narrow_bias_grad
// CHECK-NOT:    library =
plan.kernel @bias_grad_onto(%x: tensor<5x3xf32>, %g: tensor<5x7xf32>, %sum: tensor<7xf32>) -> (tensor<3x7xf32>, tensor<7xf32>)
    attributes {generator = #plan.generator<gemm>, ties = array<i64: -1, 2>} {
  %y = nn.linear_grad_weight %x, %g : (tensor<5x3xf32>, tensor<5x7xf32>) -> tensor<3x7xf32>
  %s = nn.sum_rows %g init %sum : (tensor<5x7xf32>, tensor<7xf32>) -> tensor<7xf32>
  plan.yield %y, %s : tensor<3x7xf32>, tensor<7xf32>
}
plan.kernel @narrow_bias_grad(%x: tensor<5x3xbf16>, %g: tensor<5x7xbf16>) -> (tensor<3x7xf32>, tensor<7xbf16>)
    attributes {generator = #plan.generator<gemm>, ties = array<i64: -1, -1>} {
  %y = nn.linear_grad_weight %x, %g : (tensor<5x3xbf16>, tensor<5x7xbf16>) -> tensor<3x7xf32>
  %s = nn.sum_rows %g : (tensor<5x7xbf16>) -> tensor<7xbf16>
  plan.yield %y, %s : tensor<3x7xf32>, tensor<7xbf16>
}

// Another function, two steps, a result in place of what its end still reads.
// CHECK:      plan.kernel @relu
// CHECK-NOT:    library =
// CHECK:      plan.kernel @scaled
// CHECK-NOT:    library =
// CHECK:      plan.kernel @in_place
// CHECK-NOT:    library =
plan.kernel @relu(%x: tensor<5x3xf32>, %w: tensor<3x8xf32>) -> tensor<5x8xf32>
    attributes {generator = #plan.generator<gemm>, ties = array<i64: -1>} {
  %y = nn.linear %x, %w : (tensor<5x3xf32>, tensor<3x8xf32>) -> tensor<5x8xf32>
  %z = nn.map relu(%y) : tensor<5x8xf32>
  plan.yield %z : tensor<5x8xf32>
}
plan.kernel @scaled(%x: tensor<5x3xf32>, %w: tensor<3x8xf32>, %r: tensor<5x8xf32>) -> tensor<5x8xf32>
    attributes {generator = #plan.generator<gemm>, ties = array<i64: -1>} {
  %y = nn.linear %x, %w : (tensor<5x3xf32>, tensor<3x8xf32>) -> tensor<5x8xf32>
  %z = nn.map gelu_tanh(%y) : tensor<5x8xf32>
  %s = nn.add %z, %r : tensor<5x8xf32>
  plan.yield %s : tensor<5x8xf32>
}
plan.kernel @in_place(%g: tensor<5x3xf32>, %w: tensor<3x8xf32>, %x: tensor<5x8xf32>) -> tensor<5x8xf32>
    attributes {generator = #plan.generator<gemm>, ties = array<i64: 2>} {
  %y = nn.linear %g, %w : (tensor<5x3xf32>, tensor<3x8xf32>) -> tensor<5x8xf32>
  %z = nn.map gelu_tanh_grad(%y, %x) : tensor<5x8xf32>
  plan.yield %z : tensor<5x8xf32>
}

// Rows with gaps: cuBLASLt takes their distance as a leading dimension.
// CHECK:      plan.kernel @gaps
// CHECK-SAME:   a = 0, b = 1, bias = 2, d = 4, aux = 3, lda = 4, ldd = 8, ldaux = 8, end = gelu_tanh, workspace
plan.kernel @gaps(%x: tensor<5x3xf32>, %w: tensor<3x7xf32>, %b: tensor<7xf32>) -> (tensor<5x7xf32>, tensor<5x7xf32>)
    attributes {generator = #plan.generator<gemm>, ties = array<i64: -1, -1>, leading_dimensions = array<i64: 4, 0, 0, 8, 8>} {
  %y = nn.linear %x, %w bias %b : (tensor<5x3xf32>, tensor<3x7xf32>, tensor<7xf32>) -> tensor<5x7xf32>
  %z = nn.map gelu_tanh(%y) : tensor<5x7xf32>
  plan.yield %y, %z : tensor<5x7xf32>, tensor<5x7xf32>
}
