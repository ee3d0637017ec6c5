// RUN: heddle-opt %s --train-build-steps | FileCheck %s

// Losses are summed over micro-batches with 1 / (tokens of the global batch):
// 1 / (8 * 3) in training, 1 / (2 * 3) when one micro-batch is evaluated.

// CHECK-LABEL: nn.model @m
nn.model @m family "gpt2" phase "model" attributes {
    strategy = #dist.strategy<{batch = {global = 8, micro = 2, accumulate = 4, seq = 3}}>,
    config = "{}", weights = {}} {
  // CHECK-DAG: nn.state @train.loss role "accumulator" : tensor<f32>
  // CHECK-DAG: nn.state @eval.loss role "accumulator" : tensor<f32>
  nn.state @w role "parameter" : tensor<8x4xf32> {trainable}

  // CHECK: nn.step @train(%[[IDS:.*]]: tensor<4x2x3xi32>, %[[RNG:.*]]: tensor<4xi32>, %[[LABELS:.*]]: tensor<4x2x3xi32>) -> tensor<f32> attributes {arg_names = ["ids", "rng", "labels"], kind = "train", result_names = ["loss"]} {
  // CHECK-NEXT: %[[ZERO:.*]] = nn.fill 0.000000e+00 : () -> tensor<f32>
  // CHECK-NEXT: nn.set @train.loss, %[[ZERO]]
  // CHECK-NEXT: nn.micro_batches 4 {
  // CHECK-NEXT: ^bb0(%[[I:.*]]: index):
  // CHECK-NEXT:   %[[ID:.*]] = nn.micro_batch %[[IDS]][%[[I]]] : tensor<4x2x3xi32> -> tensor<2x3xi32>
  // CHECK-NEXT:   %[[LABEL:.*]] = nn.micro_batch %[[LABELS]][%[[I]]] : tensor<4x2x3xi32> -> tensor<2x3xi32>
  // CHECK:        nn.embedding %{{.*}}[%[[ID]]]
  // CHECK:        nn.dropout %{{.*}} rng %[[RNG]] layer %[[I]] micro_batch %[[I]]
  // CHECK:        %[[LOSSES:.*]], %{{.*}} = nn.cross_entropy %{{.*}}, %[[LABEL]]
  // CHECK:        nn.keep %{{.*}} as "logits" : tensor<2x3x4xf32>
  // CHECK:        %[[BEFORE:.*]] = nn.get @train.loss
  // CHECK-NEXT:   %[[SUM:.*]] = nn.sum %[[LOSSES]] init %[[BEFORE]] {scale = 0.041666666666666664 : f64}
  // CHECK-NEXT:   nn.set @train.loss, %[[SUM]]
  // CHECK:      %[[TOTAL:.*]] = nn.get @train.loss
  // CHECK-NEXT: nn.return %[[TOTAL]] : tensor<f32>
  nn.func @train(%ids: tensor<2x3xi32>, %rng: tensor<4xi32>, %micro_batch: index, %labels: tensor<2x3xi32>) -> (tensor<2x3x4xf32>, tensor<2x3xf32>) attributes {
      program = "train", arg_names = ["ids", "rng", "micro_batch", "labels"],
      result_names = ["logits", "losses"]} {
    %w = nn.get @w : tensor<8x4xf32>
    %x = nn.embedding %w[%ids] : (tensor<8x4xf32>, tensor<2x3xi32>) -> tensor<2x3x4xf32>
    %d = nn.dropout %x rng %rng layer %micro_batch micro_batch %micro_batch {p = 0.5 : f64, site = 0 : i32} : (tensor<2x3x4xf32>, tensor<4xi32>, index, index) -> tensor<2x3x4xf32>
    %losses, %lse = nn.cross_entropy %d, %labels : (tensor<2x3x4xf32>, tensor<2x3xi32>) -> (tensor<2x3xf32>, tensor<2x3xf32>)
    nn.return %d, %losses : tensor<2x3x4xf32>, tensor<2x3xf32>
  }

  // CHECK: nn.step @eval(%{{.*}}: tensor<1x2x3xi32>, %{{.*}}: tensor<1x2x3xi32>) -> tensor<f32> attributes {arg_names = ["ids", "labels"], kind = "eval", result_names = ["loss"]} {
  // CHECK: nn.micro_batches 1 {
  // CHECK: nn.sum {{.*}} {scale = 0.16666666666666666 : f64}
  nn.func @eval(%ids: tensor<2x3xi32>, %labels: tensor<2x3xi32>) -> tensor<2x3xf32> attributes {
      program = "eval", arg_names = ["ids", "labels"], result_names = ["losses"]} {
    %w = nn.get @w : tensor<8x4xf32>
    %x = nn.embedding %w[%ids] : (tensor<8x4xf32>, tensor<2x3xi32>) -> tensor<2x3x4xf32>
    %losses, %lse = nn.cross_entropy %x, %labels : (tensor<2x3x4xf32>, tensor<2x3xi32>) -> (tensor<2x3xf32>, tensor<2x3xf32>)
    nn.return %losses : tensor<2x3xf32>
  }

  // A program that runs once stays as it is.
  // CHECK: nn.step @generate(%[[IDS:.*]]: tensor<1x3xi32>) -> tensor<1x3x4xf32> attributes {arg_names = ["ids"], kind = "generate", result_names = ["logits"]} {
  // CHECK-NOT: nn.micro_batches
  // CHECK: %[[X:.*]] = nn.embedding %{{.*}}[%[[IDS]]]
  // CHECK-NEXT: nn.return %[[X]]
  nn.func @generate(%ids: tensor<1x3xi32>) -> tensor<1x3x4xf32> attributes {
      program = "generate", arg_names = ["ids"], result_names = ["logits"]} {
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
