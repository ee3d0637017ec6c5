// RUN: heddle-opt %s --fuse-gather-products --fuse-form-kernels --fuse-verify | FileCheck %s
// RUN: heddle-opt %s --fuse-gather-products --fuse-form-kernels=remarks=true 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK --implicit-check-not=remark:
// RUN: sed 's/strategy<{}>/strategy<{target = sm_80}>/' %s | heddle-opt --fuse-gather-products --fuse-form-kernels | FileCheck %s --check-prefix=GPU

// Products with packed weights that multiply the same rows are one kernel.

nn.model @m family "llama" phase "spmd" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  // One that stands behind a use of another one goes before it.
  // CHECK-LABEL: nn.func @qkv
  // GPU-LABEL: nn.func @qkv
  nn.func @qkv(%x: tensor<3x16xf32>, %q: tensor<2x16x32x1xf32>, %k: tensor<1x16x32x1xf32>, %g: tensor<64xf32>) -> (tensor<3x64xf32>, tensor<3x7xf32>) {
    // CHECK: %[[ALL:.*]]:2 = plan.launch @packed_linear_packed_linear(%{{.*}}, %{{.*}}, %{{.*}}) : (tensor<3x16xf32>, tensor<2x16x32x1xf32>, tensor<1x16x32x1xf32>) -> (tensor<3x64xf32>, tensor<3x7xf32>)
    // CHECK: plan.launch @rms_norm(%[[ALL]]#0, %{{.*}})
    // GPU: plan.launch @packed_linear_packed_linear(
    %0 = nn.packed_linear %x, %q : (tensor<3x16xf32>, tensor<2x16x32x1xf32>) -> tensor<3x64xf32>
    // REMARK: remark: {{.*}} is not fused with nn.packed_linear: only element-wise operations can be a product's epilogue
    %n, %r = nn.rms_norm %0, %g {eps = 1.0e-5 : f64} : (tensor<3x64xf32>, tensor<64xf32>) -> (tensor<3x64xf32>, tensor<3xf32>)
    %1 = nn.packed_linear %x, %k : (tensor<3x16xf32>, tensor<1x16x32x1xf32>) -> tensor<3x7xf32>
    nn.return %n, %1 : tensor<3x64xf32>, tensor<3x7xf32>
  }

  // An epilogue may read elements of both.
  // CHECK-LABEL: nn.func @gate
  nn.func @gate(%x: tensor<3x16xf32>, %g: tensor<2x16x32x1xf32>, %u: tensor<2x16x32x1xf32>) -> tensor<3x64xf32> {
    // CHECK-NEXT: %[[Y:.*]] = plan.launch @packed_linear_packed_linear_silu_mul(%{{.*}}, %{{.*}}, %{{.*}}) : (tensor<3x16xf32>, tensor<2x16x32x1xf32>, tensor<2x16x32x1xf32>) -> tensor<3x64xf32>
    // CHECK-NEXT: nn.return %[[Y]]
    %0 = nn.packed_linear %x, %g : (tensor<3x16xf32>, tensor<2x16x32x1xf32>) -> tensor<3x64xf32>
    %1 = nn.map silu(%0) : tensor<3x64xf32>
    %2 = nn.packed_linear %x, %u : (tensor<3x16xf32>, tensor<2x16x32x1xf32>) -> tensor<3x64xf32>
    %3 = nn.mul %1, %2 : tensor<3x64xf32>
    nn.return %3 : tensor<3x64xf32>
  }

  // Rows are prepared in another way for codes.
  // CHECK-LABEL: nn.func @forms
  nn.func @forms(%x: tensor<3x16xf32>, %a: tensor<2x16x32x1xf32>, %b: tensor<2x4x32xi32>, %s: tensor<2x1x32xf16>) -> (tensor<3x64xf32>, tensor<3x64xf32>) {
    // CHECK-COUNT-2: plan.launch @packed_linear
    %0 = nn.packed_linear %x, %a : (tensor<3x16xf32>, tensor<2x16x32x1xf32>) -> tensor<3x64xf32>
    // REMARK: remark: {{.*}} is not fused with nn.packed_linear: its weight is packed in another way
    %1 = nn.packed_linear %x, %b scales %s bits 8 : (tensor<3x16xf32>, tensor<2x4x32xi32>, tensor<2x1x32xf16>) -> tensor<3x64xf32>
    nn.return %0, %1 : tensor<3x64xf32>, tensor<3x64xf32>
  }

  // One that multiplies what is made of the other does not go before that.
  // CHECK-LABEL: nn.func @chain
  nn.func @chain(%x: tensor<3x16xf32>, %w: tensor<1x16x32x1xf32>, %b: tensor<16xf32>) -> (tensor<3x16xf32>, tensor<3x16xf32>) {
    // CHECK: plan.launch @packed_linear
    // CHECK: plan.launch @sum_rows
    // CHECK: plan.launch @packed_linear
    %0 = nn.packed_linear %x, %w : (tensor<3x16xf32>, tensor<1x16x32x1xf32>) -> tensor<3x16xf32>
    %1 = nn.sum_rows %0 : (tensor<3x16xf32>) -> tensor<16xf32>
    // REMARK: remark: {{.*}} is not fused with nn.packed_linear: a value of the kernel is used in between
    %2 = nn.packed_linear %x, %w bias %1 : (tensor<3x16xf32>, tensor<1x16x32x1xf32>, tensor<16xf32>) -> tensor<3x16xf32>
    nn.return %0, %2 : tensor<3x16xf32>, tensor<3x16xf32>
  }
}
