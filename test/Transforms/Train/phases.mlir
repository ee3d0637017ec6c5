// RUN: heddle-opt %s --train-build-steps --train-differentiate --train-optimizer --train-verify | FileCheck %s

// Two train programs, of which the second also trains @wpe. They share states and the
// buckets of what both train. What only one trains has buckets of its own, so that the other
// leaves it as it is.

// CHECK: nn.state @train.near.loss role accumulator
// CHECK: nn.state @wte role parameter
// CHECK-COUNT-1: nn.state @wte.grad role gradient
// CHECK: nn.state @wpe role parameter
// CHECK-COUNT-1: nn.state @wpe.grad role gradient
// CHECK: nn.state @wte.exp_avg role optimizer
// CHECK: nn.bucket @parameters.decay [@wte]
// CHECK: nn.bucket @gradients.decay [@wte.grad]
// CHECK: nn.bucket @exp_avg.decay [@wte.exp_avg]
// CHECK: nn.state @nonfinite role optimizer
// CHECK: nn.state @beta1_power role optimizer

// CHECK-LABEL: nn.step @train.near
// CHECK-SAME: phase = #nn.phase<"near", from_step = 1>
// CHECK-NOT: @wpe
// CHECK: nn.global_norm %{{[^ ,]*}} :
// CHECK: nn.update "adamw"
// CHECK-NOT: nn.update

// CHECK: nn.bucket @parameters.decay.far [@wpe]
// CHECK: nn.bucket @gradients.decay.far [@wpe.grad]
// CHECK-NOT: nn.state
// CHECK-LABEL: nn.step @train.far
// CHECK-SAME: phase = #nn.phase<"far", from_step = 5>
// CHECK: nn.global_norm %{{[^ ,]*}}, %{{[^ ,]*}} :
// CHECK: nn.get @beta1_power
// CHECK: nn.update "adamw"
// CHECK: nn.set @parameters.decay,
// CHECK: nn.update "adamw"
// CHECK: nn.set @parameters.decay.far,
nn.model @phases family "gpt2" phase "model" attributes {
    strategy = #dist.strategy<{batch = {global = 2, micro = 2, accumulate = 1, seq = 3}}>,
    config = "{}", weights = {}} {
  nn.state @wte role parameter : tensor<8x4xf32> {trainable, decays}
  nn.state @wpe role parameter : tensor<8x4xf32> {trainable, decays}
  nn.func @near(%ids: tensor<2x3xi32>, %labels: tensor<2x3xi32>) -> tensor<2x3xf32> attributes {
      inputs = [#nn.port<ids>, #nn.port<labels>], outputs = [#nn.port<losses>],
      phase = #nn.phase<"near", from_step = 1>, program = #nn.program<train>} {
    %wte = nn.get @wte : tensor<8x4xf32>
    %x = nn.embedding %wte[%ids] : (tensor<8x4xf32>, tensor<2x3xi32>) -> tensor<2x3x4xf32>
    %z = nn.linear %x, %wte {transposed} : (tensor<2x3x4xf32>, tensor<8x4xf32>) -> tensor<2x3x8xf32>
    %losses, %lse = nn.cross_entropy %z, %labels : (tensor<2x3x8xf32>, tensor<2x3xi32>) -> (tensor<2x3xf32>, tensor<2x3xf32>)
    nn.return %losses : tensor<2x3xf32>
  }
  nn.func @far(%ids: tensor<2x3xi32>, %labels: tensor<2x3xi32>) -> tensor<2x3xf32> attributes {
      inputs = [#nn.port<ids>, #nn.port<labels>], outputs = [#nn.port<losses>],
      phase = #nn.phase<"far", from_step = 5>, program = #nn.program<train>} {
    %wte = nn.get @wte : tensor<8x4xf32>
    %wpe = nn.get @wpe : tensor<8x4xf32>
    %x = nn.embedding %wte[%ids] : (tensor<8x4xf32>, tensor<2x3xi32>) -> tensor<2x3x4xf32>
    %p = nn.embedding %wpe[%ids] : (tensor<8x4xf32>, tensor<2x3xi32>) -> tensor<2x3x4xf32>
    %s = nn.add %x, %p : tensor<2x3x4xf32>
    %z = nn.linear %s, %wte {transposed} : (tensor<2x3x4xf32>, tensor<8x4xf32>) -> tensor<2x3x8xf32>
    %losses, %lse = nn.cross_entropy %z, %labels : (tensor<2x3x8xf32>, tensor<2x3xi32>) -> (tensor<2x3xf32>, tensor<2x3xf32>)
    nn.return %losses : tensor<2x3xf32>
  }
}
