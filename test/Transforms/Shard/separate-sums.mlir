// DEFINE: %{separate} = heddle-opt --train-differentiate --shard-make-mesh --shard-separate-sums
// RUN: %{separate} %s | FileCheck %s
// RUN: sed 's/stage = 2/stage = 1/' %s | %{separate} | FileCheck %s --check-prefix=WITHIN
// RUN: sed 's/data = 2/tensor = 2/; s/global = 8/global = 4/' %s | %{separate} | FileCheck %s --check-prefix=WITHIN
// RUN: heddle-opt --train-differentiate --shard-make-mesh %s | sed 's/%\(.*\) = nn.get @wte.grad : \(.*\)/%\1 = nn.get @wte.grad : \2\n nn.keep %\1 as "x" : \2/' \
// RUN:   | not heddle-opt --shard-separate-sums 2>&1 | FileCheck %s --check-prefix=KEPT
// KEPT: error: H0904: reads a gradient for something else than to add to it

// A rank that keeps a part of the gradients adds up parts. What a function
// computes is what one micro-batch makes.
// CHECK: nn.func @block.bwd({{.*}}) -> (tensor<2x3x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>)
// CHECK-NOT: nn.add
// CHECK: nn.step @train
// The second use of an embedding still adds to the first.
// CHECK: %[[HEAD:.*]] = nn.linear_grad_weight %{{[^ ]*}}, %{{[^ ]*}} {transposed}
// CHECK-NOT: nn.get @w.grad
// CHECK: %[[BACK:.*]]:3 = nn.call @block.bwd({{.*}}) path "h.0"
// CHECK-DAG: %[[W:.*]] = nn.get @w.grad
// CHECK-DAG: %[[SUM:.*]] = nn.add %[[W]], %[[BACK]]#1
// CHECK-DAG: nn.set @w.grad, %[[SUM]]
// CHECK-DAG: %[[BOTH:.*]] = nn.embedding_grad {{.*}} init %[[HEAD]]
// CHECK-DAG: %[[WTE:.*]] = nn.get @wte.grad
// CHECK-DAG: %[[ALL:.*]] = nn.add %[[WTE]], %[[BOTH]]
// CHECK-DAG: nn.set @wte.grad, %[[ALL]]

// WITHIN: nn.func @block.bwd(
// WITHIN: nn.add
// WITHIN: nn.step @train
// WITHIN: %[[WTE:.*]] = nn.get @wte.grad
// WITHIN: nn.linear_grad_weight %{{.*}} init %[[WTE]] {transposed}
// WITHIN: %[[W:.*]] = nn.get @w.grad
// WITHIN: nn.call @block.bwd({{.*}}%[[W]]
nn.model @m family "gpt2" phase "model" attributes {
    strategy = #dist.strategy<{zero = {stage = 2}, mesh = {data = 2}, batch = {global = 8, micro = 2, accumulate = 2, seq = 3}}>,
    config = "{}", weights = {}} {
  nn.state @loss role accumulator : tensor<f32>
  nn.state @scale role scalar : tensor<f32>
  nn.state @wte role parameter : tensor<4x4xf32> {trainable}
  nn.state @w role parameter : tensor<4x4xf32> {trainable}
  nn.state @v role parameter : tensor<4x4xf32> {trainable}
  nn.func @block(%x: tensor<2x3x4xf32>, %a: tensor<4x4xf32>, %b: tensor<4x4xf32>) -> tensor<2x3x4xf32> {
    %w = nn.mul %a, %b : tensor<4x4xf32>
    %y = nn.linear %x, %w : (tensor<2x3x4xf32>, tensor<4x4xf32>) -> tensor<2x3x4xf32>
    nn.return %y : tensor<2x3x4xf32>
  }
  nn.step @train(%ids: tensor<2x2x3xi32>) -> tensor<f32> attributes {
      kind = #nn.program<train>, inputs = [#nn.port<ids>], outputs = [#nn.port<loss>]} {
    nn.micro_batches 2 {
    ^bb0(%i: index):
      %id = nn.micro_batch %ids[%i] : tensor<2x2x3xi32> -> tensor<2x3xi32>
      %wte = nn.get @wte : tensor<4x4xf32>
      %w = nn.get @w : tensor<4x4xf32>
      %v = nn.get @v : tensor<4x4xf32>
      %x = nn.embedding %wte[%id] : (tensor<4x4xf32>, tensor<2x3xi32>) -> tensor<2x3x4xf32>
      %y = nn.call @block(%x, %w, %v) path "h.0" recompute none : (tensor<2x3x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<2x3x4xf32>
      %y3 = nn.linear %y, %wte : (tensor<2x3x4xf32>, tensor<4x4xf32>) -> tensor<2x3x4xf32>
      %sum = nn.add %y, %y : tensor<2x3x4xf32>
      %z = nn.linear %sum, %wte {transposed} : (tensor<2x3x4xf32>, tensor<4x4xf32>) -> tensor<2x3x4xf32>
      %losses, %lse = nn.cross_entropy %z, %id : (tensor<2x3x4xf32>, tensor<2x3xi32>) -> (tensor<2x3xf32>, tensor<2x3xf32>)
      %scale = nn.get @scale : tensor<f32>
      %weights = nn.token_weights %id scale %scale : (tensor<2x3xi32>, tensor<f32>) -> tensor<2x3xf32>
      %before = nn.get @loss : tensor<f32>
      %total = nn.sum %losses weights %weights init %before : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<f32>) -> tensor<f32>
      nn.set @loss, %total : tensor<f32>
      nn.return
    }
    %loss = nn.get @loss : tensor<f32>
    nn.return %loss : tensor<f32>
  }
}
