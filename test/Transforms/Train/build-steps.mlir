// RUN: heddle-opt %s --train-build-steps | FileCheck %s

// The labels of the whole step are counted before the first micro-batch; losses
// are summed over micro-batches, each with what its label weighs in the mean.

// CHECK-LABEL: nn.model @m
nn.model @m family "gpt2" phase "model" attributes {
    strategy = #dist.strategy<{batch = {global = 8, micro = 2, accumulate = 4, seq = 3}}>,
    config = "{}", weights = {}} {
  // CHECK-DAG: nn.state @train.loss role accumulator : tensor<f32>
  // CHECK-DAG: nn.state @eval.loss role accumulator : tensor<f32>
  // CHECK-DAG: nn.state @train.scale role scalar : tensor<f32>
  nn.state @w role parameter : tensor<8x4xf32> {trainable}

  // CHECK: nn.step @train(%[[IDS:.*]]: tensor<4x2x3xi32>, %[[RNG:.*]]: tensor<4xi32>, %[[LABELS:.*]]: tensor<4x2x3xi32>) -> (tensor<f32>, tensor<f32>) attributes {inputs = [#nn.port<ids>, #nn.port<rng>, #nn.port<labels>], kind = #nn.program<train>, outputs = [#nn.port<loss>, #nn.port<loss_weight>]} {
  // CHECK-NEXT: %[[COUNT:.*]] = nn.count_labels %[[LABELS]] : (tensor<4x2x3xi32>) -> tensor<f32>
  // CHECK-NEXT: %[[SCALE:.*]] = nn.loss_scale %[[COUNT]]
  // CHECK-NEXT: nn.set @train.scale, %[[SCALE]]
  // CHECK-NEXT: %[[ZERO:.*]] = nn.fill 0.000000e+00 : () -> tensor<f32>
  // CHECK-NEXT: nn.set @train.loss, %[[ZERO]]
  // CHECK-NEXT: nn.micro_batches 4 {
  // CHECK-NEXT: ^bb0(%[[I:.*]]: index):
  // CHECK-NEXT:   %[[ID:.*]] = nn.micro_batch %[[IDS]][%[[I]]] : tensor<4x2x3xi32> -> tensor<2x3xi32>
  // CHECK-NEXT:   %[[LABEL:.*]] = nn.micro_batch %[[LABELS]][%[[I]]] : tensor<4x2x3xi32> -> tensor<2x3xi32>
  // CHECK-NEXT:   %[[MEAN:.*]] = nn.get @train.scale
  // CHECK-NEXT:   %[[WEIGHTS:.*]] = nn.token_weights %[[LABEL]] scale %[[MEAN]] : (tensor<2x3xi32>, tensor<f32>) -> tensor<2x3xf32>
  // CHECK:        nn.embedding %{{.*}}[%[[ID]]]
  // CHECK:        nn.dropout %{{.*}} rng %[[RNG]] layer %[[I]] micro_batch %[[I]]
  // CHECK:        %[[LOSSES:.*]], %{{.*}} = nn.cross_entropy %{{.*}}, %[[LABEL]]
  // CHECK:        nn.keep %{{.*}} as "logits" : tensor<2x3x4xf32>
  // CHECK:        %[[BEFORE:.*]] = nn.get @train.loss
  // CHECK-NEXT:   %[[SUM:.*]] = nn.sum %[[LOSSES]] weights %[[WEIGHTS]] init %[[BEFORE]]
  // CHECK-NEXT:   nn.set @train.loss, %[[SUM]]
  // CHECK:      %[[TOTAL:.*]] = nn.get @train.loss
  // CHECK-NEXT: nn.return %[[TOTAL]], %[[COUNT]] : tensor<f32>, tensor<f32>
  nn.func @train(%ids: tensor<2x3xi32>, %rng: tensor<4xi32>, %micro_batch: index, %labels: tensor<2x3xi32>) -> (tensor<2x3x4xf32>, tensor<2x3xf32>) attributes {
      program = #nn.program<train>, inputs = [#nn.port<ids>, #nn.port<rng>, #nn.port<micro_batch>, #nn.port<labels>],
      outputs = [#nn.port<logits>, #nn.port<losses>]} {
    %w = nn.get @w : tensor<8x4xf32>
    %x = nn.embedding %w[%ids] : (tensor<8x4xf32>, tensor<2x3xi32>) -> tensor<2x3x4xf32>
    %d = nn.dropout %x rng %rng layer %micro_batch micro_batch %micro_batch {p = 0.5 : f64, site = 0 : i32} : (tensor<2x3x4xf32>, tensor<4xi32>, index, index) -> tensor<2x3x4xf32>
    %losses, %lse = nn.cross_entropy %d, %labels : (tensor<2x3x4xf32>, tensor<2x3xi32>) -> (tensor<2x3xf32>, tensor<2x3xf32>)
    nn.return %d, %losses : tensor<2x3x4xf32>, tensor<2x3xf32>
  }

  // With weights, and two losses of one kind of labels.
  // CHECK: nn.step @eval(%{{.*}}: tensor<1x2x3xi32>, %{{.*}}: tensor<1x2x3xi32>, %{{.*}}: tensor<1x2x3xf32>) -> (tensor<f32>, tensor<f32>) attributes {inputs = [#nn.port<ids>, #nn.port<labels>, #nn.port<label_weights>], kind = #nn.program<eval>, outputs = [#nn.port<loss>, #nn.port<loss_weight>]} {
  // CHECK: nn.count_labels %{{.*}} weights %{{.*}} : (tensor<1x2x3xi32>, tensor<1x2x3xf32>) -> tensor<f32>
  // CHECK: nn.micro_batches 1 {
  // CHECK: %[[WEIGHTS:.*]] = nn.token_weights %{{.*}} scale %{{.*}} weights %{{.*}}
  // CHECK: nn.sum %[[FIRST:.*]] weights %[[WEIGHTS]] init
  // CHECK-NEXT: nn.sum %{{.*}} weights %[[WEIGHTS]] init
  nn.func @eval(%ids: tensor<2x3xi32>, %labels: tensor<2x3xi32>, %weights: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>) attributes {
      program = #nn.program<eval>, inputs = [#nn.port<ids>, #nn.port<labels>, #nn.port<label_weights>], outputs = [#nn.port<losses>, #nn.port<losses, "again">]} {
    %w = nn.get @w : tensor<8x4xf32>
    %x = nn.embedding %w[%ids] : (tensor<8x4xf32>, tensor<2x3xi32>) -> tensor<2x3x4xf32>
    %losses, %lse = nn.cross_entropy %x, %labels : (tensor<2x3x4xf32>, tensor<2x3xi32>) -> (tensor<2x3xf32>, tensor<2x3xf32>)
    nn.return %losses, %lse : tensor<2x3xf32>, tensor<2x3xf32>
  }

  // A program that runs once stays as it is.
  // CHECK: nn.step @generate(%[[IDS:.*]]: tensor<1x3xi32>) -> tensor<1x3x4xf32> attributes {inputs = [#nn.port<ids>], kind = #nn.program<generate>, outputs = [#nn.port<logits>]} {
  // CHECK-NOT: nn.micro_batches
  // CHECK: %[[X:.*]] = nn.embedding %{{.*}}[%[[IDS]]]
  // CHECK-NEXT: nn.return %[[X]]
  nn.func @generate(%ids: tensor<1x3xi32>) -> tensor<1x3x4xf32> attributes {
      program = #nn.program<generate>, inputs = [#nn.port<ids>], outputs = [#nn.port<logits>]} {
    %w = nn.get @w : tensor<8x4xf32>
    %x = nn.embedding %w[%ids] : (tensor<8x4xf32>, tensor<1x3xi32>) -> tensor<1x3x4xf32>
    nn.return %x : tensor<1x3x4xf32>
  }

  // A layer is no program.
  // CHECK: nn.func @layer
  nn.func @layer(%x: tensor<4xf32>) -> tensor<4xf32> {
    nn.return %x : tensor<4xf32>
  }
}
