// DEFINE: %{narrow} = heddle-opt --train-differentiate --train-optimizer --shard-make-mesh --shard-narrow-gradients
// RUN: %{narrow} %s | FileCheck %s
// RUN: sed 's/data = 2/data = 2, pipe = 2/' %s | %{narrow} | FileCheck %s --check-prefix=KEPT
// RUN: sed 's/type = bf16/type = fp32/' %s | %{narrow} | FileCheck %s --check-prefix=KEPT
// RUN: sed 's/data = 2/tensor = 2/; s/global = 4/global = 2/' %s | %{narrow} | FileCheck %s --check-prefix=KEPT
// RUN: sed 's/data = 2/data = 1/; s/global = 4/global = 2/' %s | %{narrow} | FileCheck %s --check-prefix=KEPT
// RUN: sed 's/global = 4/global = 8/; s/accumulate = 1/accumulate = 2/; s/1x2x3xi32/2x2x3xi32/; s/micro_batches 1/micro_batches 2/' %s | %{narrow} | FileCheck %s --check-prefix=KEPT

// Of three values a sum in bf16 is less precise.
// RUN: sed 's/add %y, %y :/add %y, %y3 :/' %s | %{narrow} | FileCheck %s --check-prefix=KEPT

// Gradients that nothing is added to are kept as they are sent to replicas;
// others in f32.
// CHECK-LABEL: nn.model @m
// CHECK: nn.state @wte.grad role gradient : tensor<4x4xbf16>
// CHECK: nn.state @w.grad role gradient : tensor<4x4xbf16>
// CHECK: nn.state @v.grad role gradient : tensor<4x4xbf16>
// KEPT: nn.state @wte.grad role gradient : tensor<4x4xf32>
// KEPT: nn.state @w.grad role gradient : tensor<4x4xf32>

// A function gives them so, an operation that makes no sum with a cast.
// CHECK: nn.func @block.bwd({{.*}}) -> (tensor<2x3x4xf32>, tensor<4x4xbf16>, tensor<4x4xbf16>)
// CHECK: %[[DW:.*]] = nn.linear_grad_weight {{.*}} -> tensor<4x4xf32>
// CHECK: %[[DA:.*]] = nn.mul %[[DW]]
// CHECK: %[[SENT:.*]] = nn.cast %[[DA]] : (tensor<4x4xf32>) -> tensor<4x4xbf16>
// KEPT: nn.func @block.bwd(
// KEPT-NOT: bf16
// KEPT: nn.step @train

// The second use of an embedding adds to the first.
// CHECK: nn.bucket @gradients.no_decay {{.*}} : tensor<192xbf16>
// CHECK: nn.step @train
// CHECK: %[[HEAD:.*]] = nn.linear_grad_weight {{.*}} {transposed} : {{.*}} -> tensor<4x4xbf16>
// CHECK: %[[BACK:.*]]:3 = nn.call @block.bwd(
// CHECK: %[[BOTH:.*]] = nn.embedding_grad {{.*}} init %[[HEAD]] : {{.*}} -> tensor<4x4xbf16>
// CHECK: nn.set @wte.grad, %[[BOTH]] : tensor<4x4xbf16>
// CHECK: nn.get @gradients.no_decay : tensor<192xbf16>
// CHECK: nn.update "adamw" {{.*}} : (tensor<192xf32>, tensor<192xbf16>,
nn.model @m family "gpt2" phase "model" attributes {
    strategy = #dist.strategy<{communication = {type = bf16}, mesh = {data = 2}, batch = {global = 4, micro = 2, accumulate = 1, seq = 3}}>,
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
  nn.step @train(%ids: tensor<1x2x3xi32>) -> tensor<f32> attributes {
      kind = #nn.program<train>, inputs = [#nn.port<ids>], outputs = [#nn.port<loss>]} {
    nn.micro_batches 1 {
    ^bb0(%i: index):
      %id = nn.micro_batch %ids[%i] : tensor<1x2x3xi32> -> tensor<2x3xi32>
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
