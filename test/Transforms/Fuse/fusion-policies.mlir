// RUN: heddle-opt %s --fuse-gather-products --fuse-form-kernels --fuse-verify | FileCheck %s --check-prefixes=CHECK,DEEP
// RUN: sed 's/strategy<{}>/strategy<{fusion = generic}>/' %s | heddle-opt --fuse-gather-products --fuse-form-kernels --fuse-verify | FileCheck %s --check-prefixes=CHECK,GENERIC
// RUN: sed 's/strategy<{}>/strategy<{fusion = none}>/' %s | heddle-opt --fuse-gather-products --fuse-form-kernels --fuse-verify | FileCheck %s --check-prefixes=CHECK,NONE
// RUN: heddle-opt %s --fuse-gather-products --fuse-form-kernels=remarks=true 2>&1 >/dev/null | FileCheck %s --check-prefix=WHY --implicit-check-not=remark:
// RUN: sed 's/strategy<{}>/strategy<{fusion = generic}>/' %s | heddle-opt --fuse-gather-products --fuse-form-kernels=remarks=true 2>&1 >/dev/null | FileCheck %s --check-prefix=WHY-GENERIC
// RUN: sed 's/strategy<{}>/strategy<{fusion = none}>/' %s | heddle-opt --fuse-gather-products --fuse-form-kernels=remarks=true 2>&1 >/dev/null | FileCheck %s --check-prefix=WHY-NONE

// What the policies of fusion make of a layer that decodes.

// WHY-GENERIC: not fused with nn.rms_norm: --fusion generic gives every product a kernel
// WHY-NONE: not fused with nn.rms_norm: --fusion none gives every operation a kernel

nn.model @m family "llama" phase "spmd" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  // The norm makes the rows of the products; the rotary embedding and the write
  // of the cache stand behind them.
  // CHECK-LABEL: nn.func @block
  nn.func @block(%x: tensor<3x1x16xf32>, %g: tensor<16xf32>, %wq: tensor<1x16x32x1xf32>, %wk: tensor<1x16x32x1xf32>, %wv: tensor<1x16x32x1xf32>, %keys: tensor<3x2x4x16xf32>, %values: tensor<3x2x16x4xf32>, %table: tensor<3x1xi32>, %at: tensor<3x1xi32>, %n: tensor<3xi32>) -> (tensor<3x1x16xf32>, tensor<3x2x4x16xf32>, tensor<3x2x16x4xf32>) {
    // DEEP-NEXT: %[[ALL:.*]]:5 = plan.launch @rms_norm_packed_linear_packed_linear_packed_linear{{.*}}(%arg0, %arg1
    // DEEP-NEXT: %[[A:.*]] = plan.launch @paged_attention(%[[ALL]]#
    // DEEP-NEXT: nn.return %[[A]]
    // GENERIC-COUNT-8: plan.launch
    // GENERIC-NOT: plan.launch
    // NONE-COUNT-8: plan.launch
    // NONE-NOT: plan.launch
    %h, %r = nn.rms_norm %x, %g {eps = 1.0e-5 : f64} : (tensor<3x1x16xf32>, tensor<16xf32>) -> (tensor<3x1x16xf32>, tensor<3x1xf32>)
    %q = nn.packed_linear %h, %wq : (tensor<3x1x16xf32>, tensor<1x16x32x1xf32>) -> tensor<3x1x16xf32>
    %tq = nn.rotary %q at %at {dims = 4 : i64, heads = 4 : i64, theta = 1.0e4 : f64} : (tensor<3x1x16xf32>, tensor<3x1xi32>) -> tensor<3x1x16xf32>
    %k = nn.packed_linear %h, %wk : (tensor<3x1x16xf32>, tensor<1x16x32x1xf32>) -> tensor<3x1x8xf32>
    %tk = nn.rotary %k at %at {dims = 4 : i64, heads = 2 : i64, theta = 1.0e4 : f64} : (tensor<3x1x8xf32>, tensor<3x1xi32>) -> tensor<3x1x8xf32>
    %v = nn.packed_linear %h, %wv : (tensor<3x1x16xf32>, tensor<1x16x32x1xf32>) -> tensor<3x1x8xf32>
    %k1, %v1 = nn.cache_write %keys, %values of %tq, %tk, %v pages %table at %at lengths %n {heads = #nn.heads<4, kv = 2, scale = 0.5>} : (tensor<3x2x4x16xf32>, tensor<3x2x16x4xf32>, tensor<3x1x16xf32>, tensor<3x1x8xf32>, tensor<3x1x8xf32>, tensor<3x1xi32>, tensor<3x1xi32>, tensor<3xi32>) -> (tensor<3x2x4x16xf32>, tensor<3x2x16x4xf32>)
    %a = nn.paged_attention %k1, %v1 of %tq, %tk, %v pages %table at %at lengths %n {heads = #nn.heads<4, kv = 2, scale = 0.5>, mask = #nn.mask<causal>} : (tensor<3x2x4x16xf32>, tensor<3x2x16x4xf32>, tensor<3x1x16xf32>, tensor<3x1x8xf32>, tensor<3x1x8xf32>, tensor<3x1xi32>, tensor<3x1xi32>, tensor<3xi32>) -> tensor<3x1x16xf32>
    nn.return %a, %k1, %v1 : tensor<3x1x16xf32>, tensor<3x2x4x16xf32>, tensor<3x2x16x4xf32>
  }

  // Row-wise operations are generic; a gate is a product's epilogue, and so is
  // a residual.
  // CHECK-LABEL: nn.func @mlp
  nn.func @mlp(%x: tensor<3x16xf32>, %y: tensor<3x16xf32>, %g: tensor<16xf32>, %wg: tensor<1x16x32x1xf32>, %wu: tensor<1x16x32x1xf32>, %wd: tensor<1x20x32x1xf32>) -> tensor<3x16xf32> {
    // The sum is used elsewhere too: it is a result of the kernel.
    // DEEP-NEXT: %[[S:.*]]:2 = plan.launch @add_rms_norm_packed_linear_packed_linear_silu_mul(
    // DEEP-NEXT: plan.launch @packed_linear_add(
    // DEEP-NEXT: nn.return
    // GENERIC-NEXT: plan.launch @add_rms_norm(
    // GENERIC-NEXT: plan.launch @packed_linear
    // GENERIC-NEXT: plan.launch @packed_linear
    // GENERIC-NEXT: plan.launch @silu_mul(
    // GENERIC-NEXT: plan.launch @packed_linear
    // GENERIC-NEXT: plan.launch @add
    // GENERIC-NEXT: nn.return
    // NONE-COUNT-8: plan.launch
    // NONE-NEXT: nn.return
    %s = nn.add %x, %y : tensor<3x16xf32>
    %h, %r = nn.rms_norm %s, %g {eps = 1.0e-5 : f64} : (tensor<3x16xf32>, tensor<16xf32>) -> (tensor<3x16xf32>, tensor<3xf32>)
    %0 = nn.packed_linear %h, %wg : (tensor<3x16xf32>, tensor<1x16x32x1xf32>) -> tensor<3x20xf32>
    %1 = nn.map silu(%0) : tensor<3x20xf32>
    %2 = nn.packed_linear %h, %wu : (tensor<3x16xf32>, tensor<1x16x32x1xf32>) -> tensor<3x20xf32>
    %3 = nn.mul %1, %2 : tensor<3x20xf32>
    // WHY: remark: {{.*}} is not fused with nn.mul: it multiplies other rows
    %4 = nn.packed_linear %3, %wd : (tensor<3x20xf32>, tensor<1x20x32x1xf32>) -> tensor<3x16xf32>
    // WHY: remark: {{.*}} is not fused with nn.add: a value of the kernel is used in between
    %5 = nn.add %s, %4 : tensor<3x16xf32>
    nn.return %5 : tensor<3x16xf32>
  }

  // Of many rows every thread would make all.
  // CHECK-LABEL: nn.func @many
  nn.func @many(%x: tensor<17x16xf32>, %g: tensor<16xf32>, %w: tensor<1x16x32x1xf32>) -> tensor<17x8xf32> {
    // CHECK-NEXT: plan.launch @rms_norm
    // CHECK-NEXT: plan.launch @packed_linear
    %h, %r = nn.rms_norm %x, %g {eps = 1.0e-5 : f64} : (tensor<17x16xf32>, tensor<16xf32>) -> (tensor<17x16xf32>, tensor<17xf32>)
    // WHY: remark: {{.*}} is not fused with nn.rms_norm: the product has 17 rows, more than 16
    %0 = nn.packed_linear %h, %w : (tensor<17x16xf32>, tensor<1x16x32x1xf32>) -> tensor<17x8xf32>
    nn.return %0 : tensor<17x8xf32>
  }

  // What stands behind heads does not go with them, nor does what reads rows of
  // another kernel, or heads of another width.
  // CHECK-LABEL: nn.func @heads
  nn.func @heads(%x: tensor<1x3x16xf32>, %y: tensor<1x3x16xf32>, %w: tensor<1x16x32x1xf32>, %v: tensor<1x16x32x1xf32>, %at: tensor<1x3xi32>) -> (tensor<1x3x16xf32>, tensor<1x3x16xf32>) {
    // DEEP-NEXT: plan.launch @packed_linear_packed_linear_rotary(
    // DEEP-NEXT: plan.launch @rotary(
    // DEEP-NEXT: plan.launch @silu
    // DEEP-NEXT: nn.return
    %0 = nn.packed_linear %x, %w : (tensor<1x3x16xf32>, tensor<1x16x32x1xf32>) -> tensor<1x3x16xf32>
    %1 = nn.packed_linear %x, %v : (tensor<1x3x16xf32>, tensor<1x16x32x1xf32>) -> tensor<1x3x16xf32>
    %2 = nn.rotary %0 at %at {dims = 4 : i64, heads = 4 : i64, theta = 1.0e4 : f64} : (tensor<1x3x16xf32>, tensor<1x3xi32>) -> tensor<1x3x16xf32>
    // WHY: remark: {{.*}} is not fused with nn.packed_linear: its heads have another width
    %3 = nn.rotary %1 at %at {dims = 4 : i64, heads = 2 : i64, theta = 1.0e4 : f64} : (tensor<1x3x16xf32>, tensor<1x3xi32>) -> tensor<1x3x16xf32>
    // WHY: remark: {{.*}} is not fused with nn.rotary: what it reads is made of whole heads
    %4 = nn.map silu(%2) : tensor<1x3x16xf32>
    nn.return %3, %4 : tensor<1x3x16xf32>, tensor<1x3x16xf32>
  }

  // A norm of each head is work on heads; weights that are one element for each
  // column are made where they are read, but for what is read elsewhere too.
  // CHECK-LABEL: nn.func @head_norms
  nn.func @head_norms(%x: tensor<1x3x16xf32>, %w: tensor<1x16x32x1xf32>, %g: tensor<4xf32>, %at: tensor<1x3xi32>) -> tensor<1x3x16xf32> {
    // DEEP-NEXT: %[[Y:.*]] = plan.launch @silu_packed_linear_reshape_rms_norm_reshape_rotary(
    // DEEP-NEXT: nn.return %[[Y]]
    // GENERIC-NEXT: plan.launch @packed_linear
    // GENERIC-NEXT: plan.launch @silu_reshape_rms_norm(
    // GENERIC-NEXT: plan.launch @reshape
    // GENERIC-NEXT: plan.launch @rotary
    // GENERIC-NEXT: nn.return
    // NONE-COUNT-6: plan.launch
    // NONE-NEXT: nn.return
    %0 = nn.packed_linear %x, %w : (tensor<1x3x16xf32>, tensor<1x16x32x1xf32>) -> tensor<1x3x16xf32>
    %1 = nn.reshape %0 : (tensor<1x3x16xf32>) -> tensor<1x3x4x4xf32>
    %2 = nn.map silu(%g) : tensor<4xf32>
    // WHY: remark: {{.*}} is not fused with nn.map: it goes over another shape
    %3, %4 = nn.rms_norm %1, %2 {eps = 1.0e-5 : f64} : (tensor<1x3x4x4xf32>, tensor<4xf32>) -> (tensor<1x3x4x4xf32>, tensor<1x3x4xf32>)
    %5 = nn.reshape %3 : (tensor<1x3x4x4xf32>) -> tensor<1x3x16xf32>
    %6 = nn.rotary %5 at %at {dims = 4 : i64, heads = 4 : i64, theta = 1.0e4 : f64} : (tensor<1x3x16xf32>, tensor<1x3xi32>) -> tensor<1x3x16xf32>
    nn.return %6 : tensor<1x3x16xf32>
  }

  // CHECK-LABEL: nn.func @shared_weight
  nn.func @shared_weight(%x: tensor<1x3x16xf32>, %w: tensor<1x16x32x1xf32>, %g: tensor<16xf32>) -> (tensor<1x3x16xf32>, tensor<16xf32>) {
    // CHECK-NEXT: plan.launch @silu
    %0 = nn.map silu(%g) : tensor<16xf32>
    // WHY: remark: {{.*}} is not fused with nn.map: it goes over another shape
    %1, %2 = nn.rms_norm %x, %0 {eps = 1.0e-5 : f64} : (tensor<1x3x16xf32>, tensor<16xf32>) -> (tensor<1x3x16xf32>, tensor<1x3xf32>)
    %3 = nn.packed_linear %1, %w : (tensor<1x3x16xf32>, tensor<1x16x32x1xf32>) -> tensor<1x3x16xf32>
    nn.return %3, %0 : tensor<1x3x16xf32>, tensor<16xf32>
  }
}
