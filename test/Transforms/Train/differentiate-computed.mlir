// RUN: heddle-opt %s --train-differentiate | FileCheck %s
// RUN: sed 's/accumulate = 1/accumulate = 2/; s/global = 2/global = 4/; s/tensor<1x2x3xi32>/tensor<2x2x3xi32>/; s/micro_batches 1/micro_batches 2/' %s \
// RUN:   | heddle-opt --train-differentiate | FileCheck %s --check-prefix=SUMS

// Parameters that a weight is computed of have gradients, as those that a layer
// uses directly: here a product of two, one of them twice.
// CHECK-LABEL: nn.func @block.bwd(
// CHECK: %[[DW:.*]] = nn.linear_grad_weight
// CHECK-DAG: %[[DA:.*]] = nn.mul %[[DW]], %{{.*}} : tensor<4x4xf32>
// CHECK-DAG: %[[DB:.*]] = nn.mul %[[DW]], %{{.*}} : tensor<4x4xf32>
// CHECK: nn.return %{{.*}}, %[[DA]], %[[DB]]

// Their gradients are added to those of the micro-batches before.
// SUMS-LABEL: nn.func @block.bwd(
// SUMS-SAME: %[[X:[^ ]*]]: tensor<2x3x4xf32>, %[[A:[^ ]*]]: tensor<4x4xf32>, %[[SA:[^ ]*]]: tensor<4x4xf32>, %[[B:[^ ]*]]: tensor<4x4xf32>, %[[SB:[^ ]*]]: tensor<4x4xf32>,
// SUMS: %[[DW:.*]] = nn.linear_grad_weight
// SUMS-DAG: %[[MA:.*]] = nn.mul %[[DW]], %[[B]] : tensor<4x4xf32>
// SUMS-DAG: %[[DA:.*]] = nn.add %[[SA]], %[[MA]]
// SUMS-DAG: %[[MB:.*]] = nn.mul %[[DW]], %[[A]] : tensor<4x4xf32>
// SUMS-DAG: %[[DB:.*]] = nn.add %[[SB]], %[[MB]]
// SUMS: nn.return %{{.*}}, %[[DA]], %[[DB]]

// CHECK-LABEL: nn.step @train
// CHECK: %[[HEAD:.*]] = nn.linear_grad_weight
// CHECK: %[[ONE:.*]] = nn.mul %[[HEAD]], %[[C:.*]] : tensor<4x8xf32>
// CHECK: %[[TWO:.*]] = nn.mul %[[HEAD]], %[[C]] : tensor<4x8xf32>
// CHECK: %[[BOTH:.*]] = nn.add %[[ONE]], %[[TWO]]
// CHECK: nn.set @c.grad, %[[BOTH]]
// CHECK-DAG: nn.set @a.grad, %{{.*}}
// CHECK-DAG: nn.set @b.grad, %{{.*}}

nn.model @m family "gpt2" phase "model" attributes {
    strategy = #dist.strategy<{batch = {global = 2, micro = 2, accumulate = 1, seq = 3}}>,
    config = "{}", weights = {}} {
  nn.state @loss role accumulator : tensor<f32>
  nn.state @scale role scalar : tensor<f32>
  nn.state @wte role parameter : tensor<8x4xf32> {trainable}
  nn.state @a role parameter : tensor<4x4xf32> {trainable}
  nn.state @b role parameter : tensor<4x4xf32> {trainable}
  nn.state @c role parameter : tensor<4x8xf32> {trainable}
  nn.func @block(%x: tensor<2x3x4xf32>, %a: tensor<4x4xf32>, %b: tensor<4x4xf32>) -> tensor<2x3x4xf32> {
    %w = nn.mul %a, %b : tensor<4x4xf32>
    %f = nn.linear %x, %w : (tensor<2x3x4xf32>, tensor<4x4xf32>) -> tensor<2x3x4xf32>
    nn.return %f : tensor<2x3x4xf32>
  }
  nn.step @train(%ids: tensor<1x2x3xi32>) -> tensor<f32> attributes {
      kind = #nn.program<train>, inputs = [#nn.port<ids>], outputs = [#nn.port<loss>]} {
    nn.micro_batches 1 {
    ^bb0(%i: index):
      %id = nn.micro_batch %ids[%i] : tensor<1x2x3xi32> -> tensor<2x3xi32>
      %wte = nn.get @wte : tensor<8x4xf32>
      %a = nn.get @a : tensor<4x4xf32>
      %b = nn.get @b : tensor<4x4xf32>
      %c = nn.get @c : tensor<4x8xf32>
      %x = nn.embedding %wte[%id] : (tensor<8x4xf32>, tensor<2x3xi32>) -> tensor<2x3x4xf32>
      %y = nn.call @block(%x, %a, %b) path "h.0" : (tensor<2x3x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<2x3x4xf32>
      %head = nn.mul %c, %c : tensor<4x8xf32>
      %z = nn.linear %y, %head : (tensor<2x3x4xf32>, tensor<4x8xf32>) -> tensor<2x3x8xf32>
      %losses, %lse = nn.cross_entropy %z, %id : (tensor<2x3x8xf32>, tensor<2x3xi32>) -> (tensor<2x3xf32>, tensor<2x3xf32>)
      %scale = nn.get @scale : tensor<f32>
      %weights = nn.token_weights %id scale %scale : (tensor<2x3xi32>, tensor<f32>) -> tensor<2x3xf32>
      %before = nn.get @loss : tensor<f32>
      %sum = nn.sum %losses weights %weights init %before : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<f32>) -> tensor<f32>
      nn.set @loss, %sum : tensor<f32>
      nn.return
    }
    %loss = nn.get @loss : tensor<f32>
    nn.return %loss : tensor<f32>
  }
}
