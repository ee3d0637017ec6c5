// RUN: heddle-opt %s --split-input-file --model-apply-precision --model-verify | FileCheck %s

// Every parameter gets a copy that is read in its place; activations follow,
// statistics and losses stay f32.

// CHECK-LABEL: nn.model @lowered
nn.model @lowered family "gpt2" phase "import" attributes {
    strategy = #dist.strategy<{precision = "bf16"}>, config = "{}", weights = {}} {
  // CHECK: nn.state @w role parameter : tensor<4x8xf32> {checkpointed, decays, init = {{.*}}, source = #nn.source<"w" : tensor<4x8xf32>>, trainable}
  // CHECK-NEXT: nn.state @w.bf16 role derived : tensor<4x8xbf16> {decays, parameter = "w", trainable}
  nn.state @w role parameter : tensor<4x8xf32> {trainable, checkpointed, decays,
      source = #nn.source<"w" : tensor<4x8xf32>>,
      init = #nn.init<normal, 0.0 : f64, 0.02 : f64>}
  // CHECK: nn.state @g.bf16 role derived : tensor<4xbf16>
  nn.state @g role parameter : tensor<4xf32> {trainable, source = #nn.source<"g" : tensor<4xf32>>, init = #nn.init<constant, 1.0 : f64, 0.0 : f64>}
  // CHECK: nn.func @head(%{{.*}}: tensor<2x4xbf16>, %{{.*}}: tensor<4x8xbf16>, %{{.*}}: tensor<4xbf16>, %{{.*}}: tensor<2xi32>) -> (tensor<2xf32>, tensor<2x4xbf16>) {
  nn.func @head(%x: tensor<2x4xf32>, %w: tensor<4x8xf32>, %g: tensor<4xf32>, %labels: tensor<2xi32>) -> (tensor<2xf32>, tensor<2x4xf32>) {
    // CHECK: nn.rms_norm {{.*}} -> (tensor<2x4xbf16>, tensor<2xf32>)
    %n, %r = nn.rms_norm %x, %g {eps = 1.0e-6 : f64} : (tensor<2x4xf32>, tensor<4xf32>) -> (tensor<2x4xf32>, tensor<2xf32>)
    // CHECK: nn.linear {{.*}} -> tensor<2x8xbf16>
    %y = nn.linear %n, %w : (tensor<2x4xf32>, tensor<4x8xf32>) -> tensor<2x8xf32>
    // CHECK: nn.cross_entropy {{.*}} : (tensor<2x8xbf16>, tensor<2xi32>) -> (tensor<2xf32>, tensor<2xf32>)
    %losses, %lse = nn.cross_entropy %y, %labels : (tensor<2x8xf32>, tensor<2xi32>) -> (tensor<2xf32>, tensor<2xf32>)
    nn.return %losses, %n : tensor<2xf32>, tensor<2x4xf32>
  }
  // CHECK: nn.func @train(%{{.*}}: tensor<2x4xbf16>, %{{.*}}: tensor<2xi32>) -> tensor<2xf32>
  nn.func @train(%x: tensor<2x4xf32>, %labels: tensor<2xi32>) -> tensor<2xf32> {
    // CHECK: nn.get @w.bf16 : tensor<4x8xbf16>
    %w = nn.get @w : tensor<4x8xf32>
    // CHECK: nn.get @g.bf16 : tensor<4xbf16>
    %g = nn.get @g : tensor<4xf32>
    // CHECK: nn.call @head{{.*}} -> (tensor<2xf32>, tensor<2x4xbf16>)
    %losses, %n = nn.call @head(%x, %w, %g, %labels) path "head" : (tensor<2x4xf32>, tensor<4x8xf32>, tensor<4xf32>, tensor<2xi32>) -> (tensor<2xf32>, tensor<2x4xf32>)
    nn.return %losses : tensor<2xf32>
  }
}

// -----

// 1 + w stays f32 if only norms read it.

// CHECK-LABEL: nn.model @offset
nn.model @offset family "gemma2" phase "import" attributes {
    strategy = #dist.strategy<{precision = "fp16"}>, config = "{}", weights = {}} {
  nn.state @w role parameter : tensor<4xf32> {trainable}
  nn.func @f(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
    %w = nn.get @w : tensor<4xf32>
    // CHECK: nn.map ({{.*}}) : (tensor<4xf16>) -> tensor<4xf32>
    %one = nn.map (%a = %w) : (tensor<4xf32>) -> tensor<4xf32> {
      %c = arith.constant 1.0 : f64
      %s = arith.addf %a, %c : f64
      nn.return %s : f64
    }
    // CHECK: nn.rms_norm {{.*}} : (tensor<2x4xf16>, tensor<4xf32>) -> (tensor<2x4xf16>, tensor<2xf32>)
    %n, %r = nn.rms_norm %x, %one {eps = 1.0e-6 : f64} : (tensor<2x4xf32>, tensor<4xf32>) -> (tensor<2x4xf32>, tensor<2xf32>)
    // CHECK: nn.map ({{.*}}) : (tensor<4xf16>) -> tensor<4xf16>
    %two = nn.map (%a = %w) : (tensor<4xf32>) -> tensor<4xf32> {
      nn.return %a : f64
    }
    %y = nn.mul %n, %n : tensor<2x4xf32>
    %z = nn.add_bias %y, %two : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
    nn.return %z : tensor<2x4xf32>
  }
}

// -----

// fp32 changes nothing.

// CHECK-LABEL: nn.model @kept
// CHECK-NOT: bf16
nn.model @kept family "gpt2" phase "import" attributes {
    strategy = #dist.strategy<{precision = "fp32"}>, config = "{}", weights = {}} {
  nn.state @w role parameter : tensor<4x8xf32>
  nn.func @f(%x: tensor<2x4xf32>) -> tensor<2x8xf32> {
    // CHECK: nn.get @w : tensor<4x8xf32>
    %w = nn.get @w : tensor<4x8xf32>
    %y = nn.linear %x, %w : (tensor<2x4xf32>, tensor<4x8xf32>) -> tensor<2x8xf32>
    nn.return %y : tensor<2x8xf32>
  }
}
