// RUN: heddle-opt %s --fuse-form-kernels --fuse-verify | FileCheck %s
// RUN: heddle-opt %s --fuse-form-kernels=remarks=true 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK --implicit-check-not=remark:
// RUN: sed 's/target = "sm_90"/target = "sm_80", gemm = "generated"/' %s | heddle-opt --fuse-form-kernels --fuse-verify | FileCheck %s --check-prefix=GENERATED

// GPUs sum the gradient of a bias in the product that is the gradient of its
// weight.
nn.model @m family "gpt2" phase "spmd" attributes {
    strategy = #dist.strategy<{target = "sm_90"}>, config = "{}", weights = {}} {
  // CHECK-LABEL: nn.func @gradients
  nn.func @gradients(%x: tensor<4x6xf32>, %g: tensor<4x8xf32>) -> (tensor<6x8xf32>, tensor<8xf32>, tensor<8x6xf32>) {
    // CHECK: %[[A:.*]]:2 = plan.launch @linear_grad_weight_sum_rows(%{{.*}}, %{{.*}}) : (tensor<4x6xf32>, tensor<4x8xf32>) -> (tensor<6x8xf32>, tensor<8xf32>)
    // CHECK: %[[B:.*]] = plan.launch @linear_grad_weight(
    // CHECK-NEXT: nn.return %[[A]]#0, %[[A]]#1, %[[B]]
    %w = nn.linear_grad_weight %x, %g : (tensor<4x6xf32>, tensor<4x8xf32>) -> tensor<6x8xf32>
    %b = nn.sum_rows %g : (tensor<4x8xf32>) -> tensor<8xf32>
    %v = nn.linear_grad_weight %x, %g {transposed} : (tensor<4x6xf32>, tensor<4x8xf32>) -> tensor<8x6xf32>
    nn.return %w, %b, %v : tensor<6x8xf32>, tensor<8xf32>, tensor<8x6xf32>
  }

  // Not of what it multiplies the gradient with. Where the product is read before
  // the sum, the sum moves up.
  // CHECK-LABEL: nn.func @others
  nn.func @others(%x: tensor<4x6xf32>, %g: tensor<4x8xf32>) -> (tensor<6x8xf32>, tensor<6xf32>, tensor<8xf32>) {
    // CHECK: %[[W:.*]]:2 = plan.launch @linear_grad_weight_sum_rows_1(
    // CHECK-NEXT: plan.launch @sum_rows(
    // CHECK-NEXT: nn.keep %[[W]]#0
    // CHECK-NEXT: nn.return
    %w = nn.linear_grad_weight %x, %g : (tensor<4x6xf32>, tensor<4x8xf32>) -> tensor<6x8xf32>
    // REMARK: remark: {{.*}} is not fused with nn.linear_grad_weight: only element-wise operations can be a product's epilogue
    %b = nn.sum_rows %x : (tensor<4x6xf32>) -> tensor<6xf32>
    nn.keep %w as "weight" : tensor<6x8xf32>
    // REMARK: remark: {{.*}} is not fused with nn.linear_grad_weight: a value of the kernel is used in between
    %c = nn.sum_rows %g : (tensor<4x8xf32>) -> tensor<8xf32>
    nn.return %w, %b, %c : tensor<6x8xf32>, tensor<6xf32>, tensor<8xf32>
  }

  // Onto what stands there only where no library computes the product.
  // CHECK-LABEL: nn.func @onto
  // GENERATED-LABEL: nn.func @onto
  nn.func @onto(%x: tensor<4x6xf32>, %g: tensor<4x8xf32>, %i: tensor<6x8xf32>, %j: tensor<8xf32>) -> (tensor<6x8xf32>, tensor<8xf32>) {
    // CHECK: plan.launch @linear_grad_weight_1(
    // CHECK: plan.launch @sum_rows_1(
    // GENERATED: plan.launch @linear_grad_weight_sum_rows_2(
    // GENERATED-NOT: plan.launch
    %w = nn.linear_grad_weight %x, %g init %i : (tensor<4x6xf32>, tensor<4x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
    // REMARK: remark: {{.*}} is not fused with nn.linear_grad_weight: products of this target add such a sum to nothing
    %b = nn.sum_rows %g init %j : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<8xf32>
    // GENERATED: nn.return
    nn.return %w, %b : tensor<6x8xf32>, tensor<8xf32>
  }

  // Sums of vectors are one kernel, unless one is used before the last.
  // CHECK-LABEL: nn.func @vectors
  nn.func @vectors(%a: tensor<6xf32>, %b: tensor<8xf32>, %c: tensor<3xf32>, %i: tensor<6xf32>, %j: tensor<8xf32>, %k: tensor<3xf32>) -> (tensor<6xf32>, tensor<8xf32>, tensor<3xf32>) {
    // CHECK: %[[X:.*]] = plan.launch @sum_rows
    // CHECK-NEXT: nn.keep %[[X]]
    // CHECK-NEXT: %[[Y:.*]]:2 = plan.launch @sum_rows_sum_rows(
    // CHECK-NEXT: nn.return %[[X]], %[[Y]]#1, %[[Y]]#0
    %x = nn.sum_rows %a init %i : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xf32>
    nn.keep %x as "x" : tensor<6xf32>
    %y = nn.sum_rows %b init %j : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %z = nn.sum_rows %c init %k : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    nn.return %x, %y, %z : tensor<6xf32>, tensor<8xf32>, tensor<3xf32>
  }

  // What is made of a sum is no epilogue of the product.
  // CHECK-LABEL: nn.func @of_a_sum
  nn.func @of_a_sum(%x: tensor<4x6xf32>, %g: tensor<4x8xf32>) -> (tensor<6x8xf32>, tensor<8xf32>) {
    // CHECK: %[[A:.*]]:2 = plan.launch @linear_grad_weight_sum_rows_2(
    // CHECK: plan.launch @relu(%[[A]]#1)
    %w = nn.linear_grad_weight %x, %g : (tensor<4x6xf32>, tensor<4x8xf32>) -> tensor<6x8xf32>
    %b = nn.sum_rows %g : (tensor<4x8xf32>) -> tensor<8xf32>
    // REMARK: remark: {{.*}} is not fused with nn.sum_rows: it goes over another shape
    %c = nn.map relu(%b) : tensor<8xf32>
    nn.return %w, %c : tensor<6x8xf32>, tensor<8xf32>
  }
}
