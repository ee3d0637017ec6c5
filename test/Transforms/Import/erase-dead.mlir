// RUN: heddle-opt %s --import-erase-dead | FileCheck %s

// CHECK-LABEL: nn.func @layer
// CHECK-NEXT: nn.map relu(
// CHECK-NEXT: nn.return
// CHECK-LABEL: nn.func @keeping
// CHECK-NEXT: nn.keep
// CHECK-LABEL: nn.func @forward
// CHECK-NEXT: nn.call @keeping
// CHECK-NEXT: %[[Y:.*]] = nn.call @layer{{.*}} path "h.1"
// CHECK-NEXT: nn.return %[[Y]]
nn.model @dead family "gpt2" phase "import" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.state @w role parameter : tensor<4xf32>
  nn.func @layer(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = nn.map relu(%x) : tensor<4xf32>
    %1 = nn.map silu(%x) : tensor<4xf32>
    %2 = nn.add %0, %1 : tensor<4xf32>
    nn.return %0 : tensor<4xf32>
  }
  nn.func @keeping(%x: tensor<4xf32>) -> tensor<4xf32> {
    nn.keep %x as "x" : tensor<4xf32>
    nn.return %x : tensor<4xf32>
  }
  // A chain that leads nowhere, through a call; another call has an effect.
  nn.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
    %w = nn.get @w : tensor<4xf32>
    %0 = nn.call @layer(%w) path "h.0" : (tensor<4xf32>) -> tensor<4xf32>
    %1 = nn.mul %0, %x : tensor<4xf32>
    %2 = nn.call @keeping(%x) path "k" : (tensor<4xf32>) -> tensor<4xf32>
    %3 = nn.call @layer(%x) path "h.1" : (tensor<4xf32>) -> tensor<4xf32>
    nn.return %3 : tensor<4xf32>
  }
}

// Where programs are steps, what none of them calls is erased, and what only
// that called.
// CHECK-LABEL: nn.model @uncalled
// CHECK-NEXT: nn.func @called
// CHECK-NOT: nn.func
// CHECK: nn.step @generate
nn.model @uncalled family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.func @inner(%x: tensor<4xf32>) -> tensor<4xf32> {
    nn.return %x : tensor<4xf32>
  }
  nn.func @outer(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = nn.call @inner(%x) path "i" : (tensor<4xf32>) -> tensor<4xf32>
    nn.return %0 : tensor<4xf32>
  }
  nn.func @called(%x: tensor<4xf32>) -> tensor<4xf32> {
    nn.return %x : tensor<4xf32>
  }
  nn.step @generate(%x: tensor<4xf32>) -> tensor<4xf32> attributes {
      kind = #nn.program<generate>, inputs = [#nn.port<ids>], outputs = [#nn.port<logits>]} {
    %0 = nn.call @called(%x) path "c" : (tensor<4xf32>) -> tensor<4xf32>
    nn.return %0 : tensor<4xf32>
  }
}
