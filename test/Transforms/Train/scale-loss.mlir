// RUN: heddle-opt %s --train-differentiate --train-scale-loss | FileCheck %s
// RUN: sed 's/value = dynamic/value = "1024"/' %s | heddle-opt --train-differentiate --train-scale-loss | FileCheck %s --check-prefix=STATIC
// RUN: sed 's/value = dynamic/value = none/' %s | heddle-opt --train-differentiate --train-scale-loss | FileCheck %s --check-prefix=NONE

// A checkpoint holds the states of a dynamic scale.
// CHECK-DAG: nn.state @loss_scale role optimizer : tensor<f32> {checkpointed, init = #nn.init<constant, 2.560000e+02 : f64, 0.000000e+00 : f64>}
// CHECK-DAG: nn.state @loss_scale_hysteresis role optimizer : tensor<f32> {checkpointed, init = #nn.init<constant, 3.000000e+00 : f64, 0.000000e+00 : f64>}
// CHECK-DAG: nn.state @loss_scale_steps role optimizer : tensor<f32> {checkpointed, init = #nn.init<constant, 0.000000e+00 : f64, 0.000000e+00 : f64>}

// A static scale may overflow ten times in a row, and is the binary's.
// STATIC-DAG: nn.state @loss_scale role optimizer : tensor<f32> {init = #nn.init<constant, 1.024000e+03 : f64, 0.000000e+00 : f64>}
// STATIC-DAG: nn.state @loss_scale_hysteresis role optimizer : tensor<f32> {init = #nn.init<constant, 1.100000e+01 : f64, 0.000000e+00 : f64>}

// NONE-NOT: nn.state @loss_scale
// NONE-NOT: nn.map

// The sum that computes the loss keeps the weights; the gradient has the scaled ones.
// CHECK-LABEL: nn.step @train
// CHECK: nn.set @scale, %[[OF:.*]] : tensor<f32>
// CHECK: %[[SCALE:.*]] = nn.get @loss_scale : tensor<f32>
// CHECK: %[[PRODUCT:.*]] = nn.map (%[[A:.*]] = %[[OF]], %[[B:.*]] = %[[SCALE]])
// CHECK: arith.mulf %[[A]], %[[B]] : f64
// CHECK: nn.set @scale.scaled, %[[PRODUCT]] : tensor<f32>
// CHECK: nn.micro_batches
// CHECK: %[[OF:.*]] = nn.get @scale : tensor<f32>
// CHECK: %[[W:.*]] = nn.token_weights %[[LABELS:.*]] scale %[[OF]] :
// CHECK: %[[FACTOR:.*]] = nn.get @scale.scaled : tensor<f32>
// CHECK: %[[SCALED:.*]] = nn.token_weights %[[LABELS]] scale %[[FACTOR]] :
// CHECK: nn.cross_entropy_grad {{.*}}%[[SCALED]]
// CHECK: nn.sum %{{.*}} weights %[[W]] init

nn.model @m family "gpt2" phase "model" attributes {
    strategy = #dist.strategy<{batch = {global = 2, micro = 2, accumulate = 1, seq = 3},
        loss_scale = {value = dynamic, initial = 256.0, window = 2, hysteresis = 3}}>,
    config = "{}", weights = {}} {
  nn.state @loss role accumulator : tensor<f32>
  nn.state @scale role scalar : tensor<f32>
  nn.state @wte role parameter : tensor<8x4xf32> {trainable, decays}
  nn.step @train(%ids: tensor<1x2x3xi32>) -> tensor<f32> attributes {
      kind = #nn.program<train>, inputs = [#nn.port<ids>], outputs = [#nn.port<loss>]} {
    %one = nn.fill 1.0 : () -> tensor<f32>
    nn.set @scale, %one : tensor<f32>
    nn.micro_batches 1 {
    ^bb0(%i: index):
      %id = nn.micro_batch %ids[%i] : tensor<1x2x3xi32> -> tensor<2x3xi32>
      %wte = nn.get @wte : tensor<8x4xf32>
      %x = nn.embedding %wte[%id] : (tensor<8x4xf32>, tensor<2x3xi32>) -> tensor<2x3x4xf32>
      %z = nn.linear %x, %wte {transposed} : (tensor<2x3x4xf32>, tensor<8x4xf32>) -> tensor<2x3x8xf32>
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
